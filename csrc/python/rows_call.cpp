// A short way into the row kernels, for small tensors: a CPython extension module, `kullback.kernels._rows_call`.
//
// Asking two tensors in Python whether they are dense, nobody follows and no gradient is wanted, and packing a call, takes four
// times as long as a few short rows. Here the same is asked in C, with Python's limited API and torch's public methods only (as in
// dense_call.cpp); whatever is not ordinary is answered NotImplemented, and the caller goes the long way.
#include <cstddef>
#include <cstring>

#include "../rows/call.h"
#include "questions.h"

namespace {

using kullback::RowsCall;
using kullback::RowStatistics;
using Entry = int64_t (*)(const RowsCall*);

constexpr int64_t kOneThread = 32768;     // elements; below, no second thread is woken (rows/api.cpp)
constexpr Py_ssize_t kBatch = 1, kKind = 5;  // fields of a Request (native_rows.py)

// What `connect` was given.
struct Connection {
    Entry forward, backward;
    PyObject *record, *check;
} connection_;

PyObject* attribute(PyObject* self, PyObject* name) { return PyObject_GetAttr(self, name); }

// A question that raises has another answer than the ordinary one: the long way finds out what is wrong.
bool surely(int answer) {
    if (answer < 0) PyErr_Clear();
    return answer == 1;
}

bool grad_enabled() { return !surely(is(Owned(PyObject_CallNoArgs(torch_.grad_enabled)), Py_False)); }

bool is_plain(PyObject* tensor) {
    PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(tensor));
    return (type == torch_.tensor || type == torch_.parameter) &&
           surely(is(Owned(attribute(tensor, name_.is_cpu)), Py_True)) && surely(is(Owned(method(tensor, name_.is_neg)), Py_False));
}

bool is_contiguous(PyObject* tensor) { return surely(is(Owned(method(tensor, name_.is_contiguous)), Py_True)); }

// A tensor without memory of its own (sparse, a batch of gradients inside torch.autograd.grad) refuses to give an address.
bool find_elements(PyObject* tensor, void** address) {
    const Owned pointer(method(tensor, name_.data_ptr));
    if (!pointer) {
        PyErr_Clear();
        return false;
    }
    *address = PyLong_AsVoidPtr(pointer.get());
    return true;
}

// The part of a call that calls of one kind share, as `Request.kind` holds it.
bool unpack_kind(PyObject* request, RowsCall& call) {
    constexpr size_t kOwn = offsetof(RowsCall, function);
    PyObject* const kind = PyTuple_GetItem(request, kKind);
    if (kind == nullptr || !PyBytes_Check(kind) || PyBytes_Size(kind) != Py_ssize_t(sizeof(RowsCall) - kOwn)) return false;
    std::memset(&call, 0, kOwn);
    std::memcpy(reinterpret_cast<char*>(&call) + kOwn, PyBytes_AsString(kind), sizeof(RowsCall) - kOwn);
    return true;
}

bool set_size(RowsCall& call, PyObject* rows) {
    const Owned numel(method(rows, name_.numel));
    call.rows = numel ? PyLong_AsLongLong(numel.get()) : -1;
    call.threads = 1;
    if (call.rows * call.classes >= kOneThread) {
        const Owned setting(PyObject_CallNoArgs(torch_.threads));
        call.threads = setting ? PyLong_AsLongLong(setting.get()) : 1;
    }
    return !PyErr_Occurred();
}

PyObject* make_value(PyObject* x, const RowsCall& call, PyObject* batch) {
    const Owned dtype(attribute(x, name_.dtype));
    PyObject* const wanted = call.result_wide ? torch_.float64 : torch_.float32;
    if (dtype.get() == wanted) {
        // One number is read in a third of the time of a tuple.
        PyObject* const shape = PyTuple_Size(batch) == 1 ? PyTuple_GetItem(batch, 0) : batch;
        return PyObject_CallMethodObjArgs(x, name_.new_empty, shape, nullptr);
    }
    const Owned arguments(PyTuple_Pack(1, batch)), keywords(PyDict_New());
    if (!arguments || !keywords || PyDict_SetItem(keywords.get(), name_.dtype, wanted) < 0) return nullptr;
    return PyObject_Call(torch_.empty, arguments.get(), keywords.get());
}

int64_t run(Entry entry, const RowsCall& call) {
    int64_t found;
    Py_BEGIN_ALLOW_THREADS;
    found = entry(&call);
    Py_END_ALLOW_THREADS;
    if (found < 0) PyErr_SetString(PyExc_RuntimeError, "the native row kernels refused a call");
    return found;
}

// Values of the rows of two dense tensors; `statistics`, if wanted, becomes a new bytes object. `reported` as in rows/call.h.
PyObject* compute(PyObject* x, PyObject* y, PyObject* request, PyObject** statistics, int64_t* reported) {
    RowsCall call;
    void *of_x, *of_y, *of_value;
    if (!unpack_kind(request, call) || !find_elements(x, &of_x) || !find_elements(y, &of_y)) Py_RETURN_NOTIMPLEMENTED;
    Owned value(make_value(x, call, PyTuple_GetItem(request, kBatch)));
    if (!value || !find_elements(value.get(), &of_value) || !set_size(call, value.get())) return nullptr;
    call.data[0] = of_x, call.data[1] = of_y, call.value = of_value;
    if (statistics != nullptr) {
        *statistics = PyBytes_FromStringAndSize(nullptr, Py_ssize_t(call.rows * int64_t(sizeof(RowStatistics))));
        if (*statistics == nullptr) return nullptr;
        call.statistics = reinterpret_cast<RowStatistics*>(PyBytes_AsString(*statistics));
    }
    *reported = run(connection_.forward, call);
    return *reported < 0 ? nullptr : value.release();
}

PyObject* rows(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 6) return PyErr_Format(PyExc_TypeError, "rows() takes 6 arguments");
    PyObject *const op = args[0], *const remembered = args[1], *const p = args[2], *const q = args[3];
    PyObject *const validate = args[4], *const parameters = args[5];
    if (!surely(nobody_follows())) Py_RETURN_NOTIMPLEMENTED;
    const Owned x(attribute(p, name_.tensor)), y(attribute(q, name_.tensor));
    if (!x || !y) {
        PyErr_Clear();
        Py_RETURN_NOTIMPLEMENTED;
    }
    if (!is_plain(x.get()) || !is_plain(y.get()) || !is_contiguous(x.get()) || !is_contiguous(y.get()) ||
        !surely(is_number(Owned(attribute(p, name_.dim)), -1)) || !surely(is_number(Owned(attribute(q, name_.dim)), -1))) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    const Owned dtype_x(attribute(x.get(), name_.dtype)), dtype_y(attribute(y.get(), name_.dtype));
    const Owned shape_x(attribute(x.get(), name_.shape)), shape_y(attribute(y.get(), name_.shape));
    if (!dtype_x || !dtype_y || !shape_x || !shape_y) return nullptr;
    const Owned views(PyTuple_Pack(2, reinterpret_cast<PyObject*>(Py_TYPE(p)), reinterpret_cast<PyObject*>(Py_TYPE(q))));
    const Owned key(views ? PyTuple_Pack(7, views.get(), dtype_x.get(), dtype_y.get(), shape_x.get(), shape_y.get(), validate,
                                         parameters)
                          : nullptr);
    if (!key) return nullptr;
    PyObject* const request = PyDict_GetItemWithError(remembered, key.get());  // borrowed
    if (request == nullptr || request == Py_None) {
        if (PyErr_Occurred()) PyErr_Clear();  // an option that cannot be hashed
        Py_RETURN_NOTIMPLEMENTED;
    }
    const bool wanted = !surely(is(Owned(attribute(x.get(), name_.requires_grad)), Py_False)) ||
                        !surely(is(Owned(attribute(y.get(), name_.requires_grad)), Py_False));
    if (wanted && grad_enabled()) {
        return PyObject_CallFunctionObjArgs(connection_.record, op, request, p, q, validate, x.get(), y.get(), nullptr);
    }
    int64_t reported = 0;
    Owned value(compute(x.get(), y.get(), request, nullptr, &reported));
    if (value && reported > 0 && validate == Py_True) {
        const Owned checked(PyObject_CallFunctionObjArgs(connection_.check, p, q, validate, nullptr));
        if (!checked) return nullptr;
    }
    return value.release();
}

PyObject* forward(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 3) return PyErr_Format(PyExc_TypeError, "forward() takes 3 arguments");
    PyObject* statistics = nullptr;
    int64_t reported = 0;
    const Owned value(compute(args[0], args[1], args[2], &statistics, &reported));
    const Owned held(statistics);
    if (!value || !held) return nullptr;
    const Owned any_reported(PyBool_FromLong(reported != 0));
    return PyTuple_Pack(3, value.get(), held.get(), any_reported.get());
}

// Whether a gradient of rows can be read where it is, and with which stride.
bool read_grad(PyObject* grad, const RowsCall& call, RowsCall& to) {
    void* elements;
    const Owned dtype(attribute(grad, name_.dtype));
    if (dtype.get() != (call.result_wide ? torch_.float64 : torch_.float32) || !is_plain(grad)) return false;
    to.grad_stride = 1;
    if (!is_contiguous(grad)) {
        const Owned strides(method(grad, name_.stride));
        if (!strides || PyTuple_Size(strides.get()) != 1) {
            PyErr_Clear();
            return false;
        }
        to.grad_stride = PyLong_AsLongLong(PyTuple_GetItem(strides.get(), 0));
    }
    if (!find_elements(grad, &elements)) return false;
    to.grad = elements;
    return true;
}

PyObject* backward(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 7) return PyErr_Format(PyExc_TypeError, "backward() takes 7 arguments");
    PyObject *const grad = args[0], *const statistics = args[1], *const request = args[2];
    RowsCall call;
    if (grad_enabled() || !surely(nobody_follows()) || !unpack_kind(request, call) || !read_grad(grad, call, call) ||
        !set_size(call, grad)) {
        if (PyErr_Occurred()) return nullptr;
        Py_RETURN_NOTIMPLEMENTED;
    }
    call.statistics = reinterpret_cast<RowStatistics*>(PyBytes_AsString(statistics));
    PyObject* found[2] = {nullptr, nullptr};
    bool failed = call.statistics == nullptr;
    for (int side = 0; side < 2 && !failed; ++side) {
        void *elements, *gradient = nullptr;
        failed = !find_elements(args[3 + side], &elements);
        call.data[side] = elements;
        if (failed || args[5 + side] != Py_True) continue;
        found[side] = PyObject_CallFunctionObjArgs(torch_.empty_like, args[3 + side], nullptr);
        failed = found[side] == nullptr || !find_elements(found[side], &gradient);
        call.gradient[side] = gradient;
    }
    const Owned to_x(found[0]), to_y(found[1]);
    if (failed || run(connection_.backward, call) < 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "a tensor lost its memory before the backward pass");
        return nullptr;
    }
    return PyTuple_Pack(2, to_x ? to_x.get() : Py_None, to_y ? to_y.get() : Py_None);
}

PyObject* connect(PyObject*, PyObject* args) {
    unsigned long long forward_address, backward_address;
    PyObject *record, *check;
    if (!PyArg_ParseTuple(args, "KKOO", &forward_address, &backward_address, &record, &check)) return nullptr;
    Py_INCREF(record), Py_INCREF(check);
    connection_ = {reinterpret_cast<Entry>(static_cast<uintptr_t>(forward_address)),
                   reinterpret_cast<Entry>(static_cast<uintptr_t>(backward_address)), record, check};
    Py_RETURN_NONE;
}

template <class F>
PyCFunction fast(F* function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef module_methods[] = {
    {"connect", connect, METH_VARARGS,
     "connect(forward, backward, record, check): addresses of the kernels; what records a call; what explains bad values."},
    {"rows", fast(rows), METH_FASTCALL,
     "rows(op, remembered, p, q, validate, parameters): the values of two views, or NotImplemented."},
    {"forward", fast(forward), METH_FASTCALL,
     "forward(x, y, request): values, statistics for the backward pass, and whether a row may break the rules of its view."},
    {"backward", fast(backward), METH_FASTCALL,
     "backward(grad, statistics, request, x, y, to_x, to_y): two gradients or None, or NotImplemented."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module_definition = {PyModuleDef_HEAD_INIT, "_rows_call", "A short way into the row kernels.", -1, module_methods,
                                 nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__rows_call() {
    if (!look_up_torch() || !intern_names()) return nullptr;
    return PyModule_Create(&module_definition);
}
