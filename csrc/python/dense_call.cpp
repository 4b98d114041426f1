// A short way into the elementwise kernels, for small tensors: a CPython extension module, `kullback.kernels._dense_call`.
//
// A call through ctypes and the Python face costs 7 microseconds, three times what torch takes for a small elementwise
// operation. Nearly all of that is Python asking questions about tensors, so here the same questions are asked in C: is this
// a dense contiguous CPU tensor, does somebody follow the computation, is a gradient wanted? If every answer is the ordinary
// one the kernel runs; otherwise the result is NotImplemented and the caller goes the long way.
#include <cstring>

#include "pair_call.h"
#include "questions.h"

namespace {

using Kernel = int32_t (*)(int32_t function, int32_t dtype, int64_t count, const void* const* inputs, void* output,
                           int32_t threads);

constexpr int kMostInputs = 8;

struct Bound {
    Kernel kernel;
    int32_t function;
    int32_t arity;
};

int have_one_shape(PyObject* a, PyObject* b) {
    if (torch_.exchange != nullptr) {
        DlTensor of_a, of_b;
        if (torch_.exchange->look(a, &of_a) != 0 || torch_.exchange->look(b, &of_b) != 0) return -1;
        const size_t bytes = sizeof(int64_t) * static_cast<size_t>(of_a.dimensions);
        return of_a.dimensions == of_b.dimensions && std::memcmp(of_a.shape, of_b.shape, bytes) == 0;
    }
    const Owned shape_a(PyObject_GetAttr(a, name_.shape)), shape_b(PyObject_GetAttr(b, name_.shape));
    return shape_a && shape_b ? PyObject_RichCompareBool(shape_a.get(), shape_b.get(), Py_EQ) : -1;
}

// Where the elements of dense tensors are that agree in dtype and shape.
int find_all_elements(PyObject* const* tensors, int32_t count, Elements* found) {
    int ordinary = 1;
    for (int32_t i = 0; ordinary == 1 && i < count; ++i) {
        ordinary = look_at(tensors[i], true, &found[i]);
        if (ordinary != 1) break;
        ordinary = found[i].contiguous && found[i].dtype == found[0].dtype && found[i].count == found[0].count;
        if (ordinary == 1 && i > 0) ordinary = have_one_shape(tensors[0], tensors[i]);
    }
    return ordinary;
}

PyObject* run(const Bound& bound, PyObject* like, const Elements* arguments) {
    const void* inputs[kMostInputs];
    for (int32_t i = 0; i < bound.arity; ++i) inputs[i] = arguments[i].data;
    const int32_t dtype = arguments[0].dtype;
    const int64_t count = arguments[0].count;
    Owned output(PyObject_CallFunctionObjArgs(torch_.empty_like, like, nullptr));
    Elements results{};
    if (!output) return nullptr;
    const int looked =
        torch_.exchange != nullptr ? look_by_exchange(output.get(), &results) : look_by_methods(output.get(), &results);
    if (looked != 1 || results.dtype != dtype || results.count != count) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "torch.empty_like returned a tensor of another kind");
        return nullptr;
    }
    int32_t status;
    if (count <= kSmall) {  // too short for anyone to gain from the interpreter's lock meanwhile
        status = bound.kernel(bound.function, dtype, count, inputs, results.data, 1);
    } else {
        const Owned setting(PyObject_CallNoArgs(torch_.threads));
        if (!setting) return nullptr;
        const auto threads = static_cast<int32_t>(PyLong_AsLong(setting.get()));
        Py_BEGIN_ALLOW_THREADS;
        status = bound.kernel(bound.function, dtype, count, inputs, results.data, threads);
        Py_END_ALLOW_THREADS;
    }
    if (status != 0) return PyErr_Format(PyExc_RuntimeError, "a native function refused its arguments (status %d)", status);
    return output.release();
}

PyObject* call(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    const auto* bound = static_cast<const Bound*>(PyCapsule_GetPointer(self, nullptr));
    if (bound == nullptr) return nullptr;
    Elements found[kMostInputs];
    int ordinary = count == bound->arity ? nobody_follows() : 0;
    if (ordinary == 1) ordinary = find_all_elements(args, bound->arity, found);
    if (ordinary < 0) return nullptr;
    if (ordinary == 0) Py_RETURN_NOTIMPLEMENTED;
    return run(*bound, args[0], found);
}

PyMethodDef call_method = {"dense_call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)), METH_FASTCALL,
                           "The function of dense tensors, or NotImplemented."};

PyObject* bind(PyObject*, PyObject* args) {
    unsigned long long address;
    int function, arity;
    if (!PyArg_ParseTuple(args, "Kii", &address, &function, &arity)) return nullptr;
    if (arity < 1 || arity > kMostInputs) return PyErr_Format(PyExc_ValueError, "arity %d", arity);
    auto* bound = new Bound{reinterpret_cast<Kernel>(static_cast<uintptr_t>(address)), function, arity};
    Owned capsule(PyCapsule_New(bound, nullptr, [](PyObject* c) {
        delete static_cast<Bound*>(PyCapsule_GetPointer(c, nullptr));
    }));
    if (!capsule) {
        delete bound;
        return nullptr;
    }
    return PyCFunction_NewEx(&call_method, capsule.get(), nullptr);
}

// use_exchange(flag) -> flag before: whether tensors are described by DLPack's table, where torch has one.
PyObject* use_exchange(PyObject*, PyObject* flag) {
    const int wanted = PyObject_IsTrue(flag);
    if (wanted < 0) return nullptr;
    const bool before = torch_.exchange != nullptr;
    torch_.exchange = wanted ? find_exchange() : nullptr;
    return PyBool_FromLong(before);
}

PyMethodDef module_methods[] = {
    {"bind", bind, METH_VARARGS,
     "bind(address, function, arity): a callable of `arity` tensors that runs the kernel at `address` or answers NotImplemented."},
    {"bind_pair", bind_pair, METH_VARARGS,
     "bind_pair(entry, function, paths_p, parts_p, paths_q, parts_q): a callable of two distributions, see pair_call.h."},
    {"use_exchange", use_exchange, METH_O,
     "use_exchange(flag): describe tensors by DLPack's table if torch has one, or by their attributes; returns the setting before."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module_definition = {PyModuleDef_HEAD_INIT, "_dense_call", "A short way into the elementwise kernels.", -1,
                                 module_methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__dense_call() {
    if (!look_up_torch() || !intern_names()) return nullptr;
    return PyModule_Create(&module_definition);
}
