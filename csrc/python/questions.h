// Questions about tensors, asked of torch's Python methods in C: is this a dense contiguous CPU tensor, does somebody follow
// the computation, is a gradient wanted? They are those of `kernels/levels.py`.
//
// Only Python's limited API and torch's public Python methods are used, so one binary serves every CPython from 3.10 and
// every torch version.
#pragma once

#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include <cstdint>
#include <initializer_list>

constexpr int64_t kSmall = 4096;  // elements; up to here one thread does it, whatever torch's setting

struct DlExchange;

// What is asked of torch, looked up once.
struct Torch {
    PyObject *tensor, *parameter, *float64, *float32;
    PyObject *transforms_active, *dispatch_stack, *tracing_state, *forward_ad, *grad_enabled, *threads, *empty, *empty_like;
    const struct DlExchange* exchange;
};
inline Torch torch_;

struct Names {
    PyObject *is_cpu, *dtype, *shape, *requires_grad, *is_neg, *is_contiguous, *numel, *data_ptr, *current_level;
    PyObject *batch_shape, *new_empty, *tensor, *dim, *stride;
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
    void reset(PyObject* object) {
        Py_XDECREF(object_);
        object_ = object;
    }
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

// Forward mode keeps its level in a variable of its module.
inline int no_dual_level() {
    PyObject* const level = PyDict_GetItemWithError(torch_.forward_ad, name_.current_level);
    if (level == nullptr) return PyErr_Occurred() ? -1 : 0;
    const long number = PyLong_AsLong(level);
    return number == -1 ? !PyErr_Occurred() : 0;
}

inline int nobody_follows() {
    int ordinary = is(Owned(PyObject_CallNoArgs(torch_.transforms_active)), Py_False);
    if (ordinary == 1) ordinary = no_dual_level();
    if (ordinary == 1) ordinary = is_number(Owned(PyObject_CallNoArgs(torch_.dispatch_stack)), 0);
    if (ordinary == 1) ordinary = is(Owned(PyObject_CallNoArgs(torch_.tracing_state)), Py_None);
    return ordinary;
}

// DLPack's table of C functions that torch hangs on its tensor type from version 2.10 on: a look at a tensor in C takes a tenth
// of the time of five Python methods. Layouts as in dlpack.h, major version 1.
struct DlTensor {
    void* data;
    int32_t device_type, device_id;
    int32_t dimensions;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};

struct DlExchange {
    uint32_t major, minor;
    void* previous;
    void *allocate, *from_object, *to_object;
    int (*look)(void* object, DlTensor* found);
    void* stream;
};

constexpr int32_t kDlCpu = 1;
constexpr uint8_t kDlFloat = 2;

// A float32 or float64 tensor in the memory of the CPU.
struct Elements {
    void* data;
    int64_t count;
    int32_t dtype;     // as abi.h numbers them
    bool contiguous;   // the elements follow one another
    bool repeated;     // they are all one and the same
};

inline int look_by_exchange(PyObject* tensor, Elements* found) {
    DlTensor t;
    if (torch_.exchange->look(tensor, &t) != 0) {
        PyErr_Clear();
        return 0;
    }
    if (t.device_type != kDlCpu || t.code != kDlFloat || t.lanes != 1 || (t.bits != 32 && t.bits != 64)) return 0;
    *found = {static_cast<char*>(t.data) + t.byte_offset, 1, t.bits == 64 ? 0 : 1, true, true};
    for (int32_t d = t.dimensions - 1; d >= 0; --d) {
        if (t.shape[d] == 1) continue;
        found->contiguous = found->contiguous && (t.strides == nullptr || t.strides[d] == found->count);
        found->repeated = found->repeated && t.strides != nullptr && t.strides[d] == 0;
        found->count *= t.shape[d];
    }
    found->contiguous = found->contiguous || found->count == 0;
    return 1;
}

inline int look_by_methods(PyObject* tensor, Elements* found) {
    const int ordinary = is(Owned(PyObject_GetAttr(tensor, name_.is_cpu)), Py_True);
    if (ordinary != 1) return ordinary;
    const Owned dtype(PyObject_GetAttr(tensor, name_.dtype)), dense(method(tensor, name_.is_contiguous));
    const Owned numel(method(tensor, name_.numel));
    if (!dtype || !dense || !numel) return -1;
    if (dtype.get() != torch_.float32 && dtype.get() != torch_.float64) return 0;
    const Owned pointer(method(tensor, name_.data_ptr));
    if (!pointer) {
        PyErr_Clear();
        return 0;
    }
    *found = {PyLong_AsVoidPtr(pointer.get()), PyLong_AsLongLong(numel.get()), dtype.get() == torch_.float64 ? 0 : 1,
              dense.get() == Py_True, false};
    return 1;
}

inline int look_at_memory(PyObject* tensor, Elements* found) {
    return torch_.exchange != nullptr ? look_by_exchange(tensor, found) : look_by_methods(tensor, found);
}

// What a tensor is, if it is its memory and no gradient is wanted; few tensors need one, so whether gradients are recorded at
// all is asked last. One without memory of its own (sparse, a batch of gradients inside
// torch.autograd.grad) refuses to give an address; that is an answer, not an error. A pending negation matters to values only.
inline int look_at(PyObject* tensor, bool for_values, Elements* found) {
    PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(tensor));
    if (type != torch_.tensor && type != torch_.parameter) return 0;
    int ordinary = is(Owned(PyObject_GetAttr(tensor, name_.requires_grad)), Py_False);
    if (ordinary == 0) ordinary = is(Owned(PyObject_CallNoArgs(torch_.grad_enabled)), Py_False);
    if (ordinary == 1 && for_values) ordinary = is(Owned(method(tensor, name_.is_neg)), Py_False);
    return ordinary == 1 ? look_at_memory(tensor, found) : ordinary;
}

// The object at a dotted path below `root`.
inline PyObject* find(PyObject* root, std::initializer_list<const char*> path) {
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

// DLPack's table, where torch has one that is understood here; the type keeps it alive.
inline const DlExchange* find_exchange() {
    const Owned capsule(PyObject_GetAttrString(torch_.tensor, "__dlpack_c_exchange_api__"));
    if (!capsule) PyErr_Clear();
    if (!capsule || !PyCapsule_IsValid(capsule.get(), "dlpack_exchange_api")) return nullptr;
    const auto* table = static_cast<const DlExchange*>(PyCapsule_GetPointer(capsule.get(), "dlpack_exchange_api"));
    return table->major == 1 && table->look != nullptr ? table : nullptr;
}

inline bool look_up_torch() {
    const Owned torch(PyImport_ImportModule("torch"));
    if (!torch) return false;
    PyObject* const t = torch.get();
    torch_ = {find(t, {"Tensor"}), find(t, {"nn", "Parameter"}), find(t, {"float64"}),
              find(t, {"float32"}), find(t, {"_C", "_are_functorch_transforms_active"}),
              find(t, {"_C", "_len_torch_dispatch_stack"}), find(t, {"_C", "_get_tracing_state"}),
              find(t, {"autograd", "forward_ad", "__dict__"}), find(t, {"is_grad_enabled"}), find(t, {"get_num_threads"}),
              find(t, {"empty"}), find(t, {"empty_like"}), nullptr};
    if (PyErr_Occurred()) return false;
    torch_.exchange = find_exchange();
    return true;
}

inline bool intern_names() {
    const auto intern = [](const char* text) { return PyUnicode_InternFromString(text); };
    name_ = {intern("is_cpu"), intern("dtype"), intern("shape"), intern("requires_grad"),
             intern("is_neg"), intern("is_contiguous"), intern("numel"), intern("data_ptr"), intern("_current_level"),
             intern("_batch_shape"), intern("new_empty"), intern("tensor"), intern("dim"), intern("stride")};
    return !PyErr_Occurred();
}
