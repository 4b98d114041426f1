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

// A new tensor for the gradient to a side, or null after an exception.
PyObject* make_gradient(PyObject* tensor, void** elements) {
    Owned made(PyObject_CallFunctionObjArgs(torch_.empty_like, tensor, nullptr));
    return made && find_elements(made.get(), elements) ? made.release() : nullptr;
}

// What a forward pass leaves to the backward pass: statistics, a bytes object with room for `written` behind them, and the gradients
// to the sides that want one, null where the pass does not begin them.
struct Left {
    bool wanted[2];
    Owned statistics{nullptr}, gradients[2]{Owned(nullptr), Owned(nullptr)};
};

void find_statistics(PyObject* statistics, bool begun, RowsCall& call) {
    call.statistics = reinterpret_cast<RowStatistics*>(PyBytes_AsString(statistics));
    call.written = begun ? reinterpret_cast<uint8_t*>(call.statistics + call.rows) : nullptr;
}

bool make_room(PyObject* const* sides, RowsCall& call, Left& left) {
    const bool begun = writes_at_once(call) && (left.wanted[0] || left.wanted[1]);
    left.statistics.reset(PyBytes_FromStringAndSize(nullptr, Py_ssize_t(call.rows * int64_t(sizeof(RowStatistics) + begun))));
    if (!left.statistics) return false;
    find_statistics(left.statistics.get(), begun, call);
    for (int side = 0; side < 2; ++side) {
        if (!begun || !left.wanted[side]) continue;
        left.gradients[side].reset(make_gradient(sides[side], &call.gradient[side]));
        if (!left.gradients[side]) return false;
    }
    return true;
}

// Values of the rows of two dense tensors. `reported` as in rows/call.h.
PyObject* compute(PyObject* const* sides, PyObject* request, Left* left, int64_t* reported) {
    RowsCall call;
    void *of_x, *of_y, *of_value;
    if (!unpack_kind(request, call) || !find_elements(sides[0], &of_x) || !find_elements(sides[1], &of_y)) Py_RETURN_NOTIMPLEMENTED;
    Owned value(make_value(sides[0], call, PyTuple_GetItem(request, kBatch)));
    if (!value || !find_elements(value.get(), &of_value) || !set_size(call, value.get())) return nullptr;
    call.data[0] = of_x, call.data[1] = of_y, call.value = of_value;
    if (left != nullptr && !make_room(sides, call, *left)) return nullptr;
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
    PyObject* const sides[] = {x.get(), y.get()};
    Owned value(compute(sides, request, nullptr, &reported));
    if (value && reported > 0 && validate == Py_True) {
        const Owned checked(PyObject_CallFunctionObjArgs(connection_.check, p, q, validate, nullptr));
        if (!checked) return nullptr;
    }
    return value.release();
}

PyObject* or_none(const Owned& object) { return object ? object.get() : Py_None; }

PyObject* forward(PyObject*, PyObject* const* args, Py_ssize_t count) {
    if (count != 5) return PyErr_Format(PyExc_TypeError, "forward() takes 5 arguments");
    int64_t reported = 0;
    Left left{{args[3] == Py_True, args[4] == Py_True}};
    const Owned value(compute(args, args[2], &left, &reported));
    if (!value || !left.statistics) return nullptr;
    const Owned any_reported(PyBool_FromLong(reported != 0));
    const Owned& x = left.gradients[0], &y = left.gradients[1];
    const Owned begun(x || y ? PyTuple_Pack(2, or_none(x), or_none(y)) : nullptr);
    return PyErr_Occurred() ? nullptr : PyTuple_Pack(4, value.get(), left.statistics.get(), any_reported.get(), or_none(begun));
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
    if (count != 8) return PyErr_Format(PyExc_TypeError, "backward() takes 8 arguments");
    PyObject *const grad = args[0], *const statistics = args[1], *const request = args[2], *const held = args[7];
    RowsCall call;
    if (grad_enabled() || !surely(nobody_follows()) || !unpack_kind(request, call) || !read_grad(grad, call, call) ||
        !set_size(call, grad)) {
        if (PyErr_Occurred()) return nullptr;
        Py_RETURN_NOTIMPLEMENTED;
    }
    find_statistics(statistics, held != Py_None, call);
    PyObject* found[2] = {nullptr, nullptr};
    bool failed = call.statistics == nullptr;
    for (int side = 0; side < 2 && !failed; ++side) {
        void *elements = nullptr, *gradient = nullptr;
        failed = !find_elements(args[3 + side], &elements);
        call.data[side] = elements;
        if (failed || args[5 + side] != Py_True) continue;
        if (held == Py_None) {
            found[side] = make_gradient(args[3 + side], &gradient);
        } else {
            found[side] = PyTuple_GetItem(held, side);
            Py_XINCREF(found[side]);
        }
        failed = found[side] == nullptr || !find_elements(found[side], &gradient);
        call.gradient[side] = gradient;
    }
    const Owned to_x(found[0]), to_y(found[1]);
    if (failed || run(connection_.backward, call) < 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "a tensor lost its memory before the backward pass");
        return nullptr;
    }
    return PyTuple_Pack(2, or_none(to_x), or_none(to_y));
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
     "forward(x, y, request, to_x, to_y): values, statistics for the backward pass, whether a row may break the rules of its view, and "
     "the gradients that the pass has begun, or None."},
    {"backward", fast(backward), METH_FASTCALL,
     "backward(grad, statistics, request, x, y, to_x, to_y, begun): two gradients or None, or NotImplemented; `begun` from forward, "
     "which become the result, or None."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module_definition = {PyModuleDef_HEAD_INIT, "_rows_call", "A short way into the row kernels.", -1, module_methods,
                                 nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__rows_call() {
    if (!look_up_torch() || !intern_names()) return nullptr;
    return PyModule_Create(&module_definition);
}
