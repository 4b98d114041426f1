// A short way into the pair kernels, for two distributions with dense parameters that need no gradient.
#pragma once

#define Py_LIMITED_API 0x030A0000
#include <Python.h>

// bind_pair(entry, function, paths_p, parts_p, paths_q, parts_q): a callable of two distributions that reads their parameters and
// runs the kernel `function` of `entry` (kullback_pair_forward), or answers NotImplemented where something is not ordinary. Where
// `entry` is 0 the divergence is infinite whatever the parameters, unless one of them is NaN.
//
//   paths: for each parameter of a side the attribute names that lead to it, outermost first
//   parts: how many parameters each tensor holds along its last dimension, 0 if it is one itself
PyObject* bind_pair(PyObject* module, PyObject* args);
