// A short way into the elementwise kernels, for small tensors: a CPython extension module, `kullback.kernels._dense_call`.
//
// A call through ctypes and the Python face costs 7 microseconds, three times what torch takes for a small elementwise
// operation. Nearly all of that is Python asking questions about tensors, so here the same questions are asked in C: is this
// a dense contiguous CPU tensor, does somebody follow the computation, is a gradient wanted? If every answer is the ordinary
// one the kernel runs; otherwise the result is NotImplemented and the caller goes the long way.
#include <initializer_list>

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

int find_all_elements(PyObject* const* tensors, int32_t count, void** addresses) {
    const int grad_enabled = is(Owned(PyObject_CallNoArgs(torch_.grad_enabled)), Py_True);
    int found = grad_enabled < 0 ? -1 : 1;
    for (int32_t i = 0; found == 1 && i < count; ++i) {
        found = find_elements(tensors[i], grad_enabled == 1, &addresses[i]);
    }
    return found;
}

PyObject* run(const Bound& bound, PyObject* like, void** addresses, int32_t dtype) {
    const Owned numel(method(like, name_.numel));
    const int64_t count = numel ? PyLong_AsLongLong(numel.get()) : -1;
    if (count < 0) return nullptr;
    int32_t threads = 1;
    if (count > kSmall) {
        const Owned setting(PyObject_CallNoArgs(torch_.threads));
        if (!setting) return nullptr;
        threads = static_cast<int32_t>(PyLong_AsLong(setting.get()));
    }
    Owned output(PyObject_CallFunctionObjArgs(torch_.empty_like, like, nullptr));
    const Owned pointer(output ? method(output.get(), name_.data_ptr) : nullptr);
    if (!pointer) return nullptr;
    void* const results = PyLong_AsVoidPtr(pointer.get());
    int32_t status;
    Py_BEGIN_ALLOW_THREADS;
    status = bound.kernel(bound.function, dtype, count, addresses, results, threads);
    Py_END_ALLOW_THREADS;
    if (status != 0) return PyErr_Format(PyExc_RuntimeError, "a native function refused its arguments (status %d)", status);
    return output.release();
}

PyObject* call(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    const auto* bound = static_cast<const Bound*>(PyCapsule_GetPointer(self, nullptr));
    if (bound == nullptr) return nullptr;
    void* addresses[kMostInputs];
    int32_t dtype = 0;
    int ordinary = count == bound->arity ? nobody_follows() : 0;
    if (ordinary == 1) ordinary = find_all_elements(args, bound->arity, addresses);
    if (ordinary == 1) ordinary = are_alike(args, bound->arity, &dtype);
    if (ordinary < 0) return nullptr;
    if (ordinary == 0) Py_RETURN_NOTIMPLEMENTED;
    return run(*bound, args[0], addresses, dtype);
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

PyMethodDef module_methods[] = {
    {"bind", bind, METH_VARARGS,
     "bind(address, function, arity): a callable of `arity` tensors that runs the kernel at `address` or answers NotImplemented."},
    {"bind_pair", bind_pair, METH_VARARGS,
     "bind_pair(entry, program, keep_alive, inputs, absent, partial): a callable of two distributions, see pair_call.h."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module_definition = {PyModuleDef_HEAD_INIT, "_dense_call", "A short way into the elementwise kernels.", -1,
                                 module_methods, nullptr, nullptr, nullptr, nullptr};

// The object at a dotted path below `root`.
PyObject* find(PyObject* root, std::initializer_list<const char*> path) {
    if (PyErr_Occurred()) return nullptr;
    Py_INCREF(root);
    PyObject* found = root;
    for (const char* part : path) {
        PyObject* next = found == nullptr ? nullptr : PyObject_GetAttrString(found, part);
        Py_XDECREF(found);
        found = next;
    }
    return found;
}

bool look_up_torch() {
    const Owned torch(PyImport_ImportModule("torch"));
    if (!torch) return false;
    PyObject* const t = torch.get();
    torch_ = {find(t, {"Tensor"}), find(t, {"nn", "Parameter"}), find(t, {"float64"}),
              find(t, {"float32"}), find(t, {"_C", "_are_functorch_transforms_active"}),
              find(t, {"_C", "_len_torch_dispatch_stack"}), find(t, {"_C", "_get_tracing_state"}),
              find(t, {"autograd", "forward_ad"}), find(t, {"is_grad_enabled"}), find(t, {"get_num_threads"}),
              find(t, {"empty_like"}), nullptr};
    if (PyErr_Occurred()) return false;
    const Owned exchange(PyObject_GetAttrString(torch_.tensor, "__dlpack_c_exchange_api__"));
    if (!exchange) PyErr_Clear();
    if (exchange && PyCapsule_IsValid(exchange.get(), "dlpack_exchange_api")) {
        const auto* table = static_cast<const DlExchange*>(PyCapsule_GetPointer(exchange.get(), "dlpack_exchange_api"));
        if (table->major == 1 && table->look != nullptr) torch_.exchange = table;
    }
    return true;
}

bool intern_names() {
    const auto intern = [](const char* text) { return PyUnicode_InternFromString(text); };
    name_ = {intern("is_cpu"), intern("dtype"), intern("shape"), intern("requires_grad"),
             intern("is_neg"), intern("is_contiguous"), intern("numel"), intern("data_ptr"), intern("_current_level"),
             intern("_batch_shape"), intern("new_empty")};
    return !PyErr_Occurred();
}

}  // namespace

PyMODINIT_FUNC PyInit__dense_call() {
    if (!look_up_torch() || !intern_names()) return nullptr;
    return PyModule_Create(&module_definition);
}
