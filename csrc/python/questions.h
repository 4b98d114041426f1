// Questions about tensors, asked of torch's Python methods in C: is this a dense contiguous CPU tensor, does somebody follow
// the computation, is a gradient wanted? They are those of `kernels/levels.py`.
//
// Only Python's limited API and torch's public Python methods are used, so one binary serves every CPython from 3.10 and
// every torch version.
#pragma once

#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include <cstdint>

constexpr int64_t kSmall = 4096;  // elements; up to here one thread does it, whatever torch's setting

// What is asked of torch, looked up once.
struct Torch {
    PyObject *tensor, *parameter, *float64, *float32;
    PyObject *transforms_active, *dispatch_stack, *tracing_state, *forward_ad, *grad_enabled, *threads, *empty_like;
};
inline Torch torch_;

struct Names {
    PyObject *is_cpu, *dtype, *shape, *requires_grad, *is_neg, *is_contiguous, *numel, *data_ptr, *current_level;
    PyObject *batch_shape, *new_empty;
};
inline Names name_;

// A new reference that is dropped at the end of the scope.
class Owned {
   public:
    explicit Owned(PyObject* object) : object_(object) {}
    ~Owned() { Py_XDECREF(object_); }
    Owned(const Owned&) = delete;
    Owned& operator=(const Owned&) = delete;
    PyObject* get() const { return object_; }
    PyObject* release() {
        PyObject* object = object_;
        object_ = nullptr;
        return object;
    }
    explicit operator bool() const { return object_ != nullptr; }

   private:
    PyObject* object_;
};

inline PyObject* method(PyObject* self, PyObject* name) { return PyObject_CallMethodObjArgs(self, name, nullptr); }

// Each of these is 1 for the ordinary answer, 0 for another and -1 after an exception.
inline int is(const Owned& found, PyObject* wanted) { return found ? found.get() == wanted : -1; }

inline int is_number(const Owned& found, long wanted) {
    if (!found) return -1;
    const long number = PyLong_AsLong(found.get());
    return number == -1 && PyErr_Occurred() ? -1 : number == wanted;
}

inline int nobody_follows() {
    int ordinary = is(Owned(PyObject_CallNoArgs(torch_.transforms_active)), Py_False);
    if (ordinary == 1) ordinary = is_number(Owned(PyObject_GetAttr(torch_.forward_ad, name_.current_level)), -1);
    if (ordinary == 1) ordinary = is_number(Owned(PyObject_CallNoArgs(torch_.dispatch_stack)), 0);
    if (ordinary == 1) ordinary = is(Owned(PyObject_CallNoArgs(torch_.tracing_state)), Py_None);
    return ordinary;
}

// Where the elements of a tensor are, if it is dense. One without memory of its own (sparse, a batch of gradients inside
// torch.autograd.grad) refuses to give an address; that is an answer, not an error.
inline int find_elements(PyObject* tensor, bool grad_enabled, void** address) {
    PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(tensor));
    if (type != torch_.tensor && type != torch_.parameter) return 0;
    int ordinary = is(Owned(PyObject_GetAttr(tensor, name_.is_cpu)), Py_True);
    if (ordinary == 1 && grad_enabled) ordinary = is(Owned(PyObject_GetAttr(tensor, name_.requires_grad)), Py_False);
    if (ordinary == 1) ordinary = is(Owned(method(tensor, name_.is_neg)), Py_False);
    if (ordinary == 1) ordinary = is(Owned(method(tensor, name_.is_contiguous)), Py_True);
    if (ordinary != 1) return ordinary;
    const Owned pointer(method(tensor, name_.data_ptr));
    if (!pointer) {
        PyErr_Clear();
        return 0;
    }
    *address = PyLong_AsVoidPtr(pointer.get());
    return 1;
}

// Whether tensors that were found dense have one floating dtype and one shape; `dtype` becomes the code of the dtype.
inline int are_alike(PyObject* const* tensors, int32_t count, int32_t* dtype) {
    const Owned first_dtype(PyObject_GetAttr(tensors[0], name_.dtype));
    if (!first_dtype) return -1;
    if (first_dtype.get() != torch_.float32 && first_dtype.get() != torch_.float64) return 0;
    *dtype = first_dtype.get() == torch_.float64 ? 0 : 1;
    if (count == 1) return 1;
    const Owned first_shape(PyObject_GetAttr(tensors[0], name_.shape));
    if (!first_shape) return -1;
    for (int32_t i = 1; i < count; ++i) {
        int alike = is(Owned(PyObject_GetAttr(tensors[i], name_.dtype)), first_dtype.get());
        if (alike != 1) return alike;
        const Owned shape(PyObject_GetAttr(tensors[i], name_.shape));
        alike = shape ? PyObject_RichCompareBool(shape.get(), first_shape.get(), Py_EQ) : -1;
        if (alike != 1) return alike;
    }
    return 1;
}
