// A short way into recorded formulas, for two distributions with dense parameters.
#pragma once

#define Py_LIMITED_API 0x030A0000
#include <Python.h>

// bind_pair(entry, program, keep_alive, inputs, absent, partial): a callable of two distributions that reads their parameters
// and runs the program (pairs/program.h), or answers NotImplemented where something is not ordinary.
//
//   inputs:   (side, [attribute names, outermost first], number of parameters along the last dimension or 0, whether
//             only its shape and dtype count), in order
//   absent:   (side, [attribute names]) of what must not be there
//   partial:  the program says NaN where it does not know; one such element is enough to decline
PyObject* bind_pair(PyObject* module, PyObject* args);
