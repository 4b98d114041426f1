#include "pair_call.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "../pairs/call.h"
#include "questions.h"

namespace {

using kullback::PairCall;
using Entry = int32_t (*)(const PairCall*);
using Path = std::vector<PyObject*>;

// Where the parameters of one side are, and how many of them a tensor holds along its last dimension (0: it is one itself).
struct Parameters {
    std::vector<Path> paths;
    int64_t parts;
};

// Without an entry the divergence is infinite, whatever the parameters.
struct Bound {
    Entry entry;
    int64_t function;
    Parameters p, q;
};

// What an object holds under a path of attributes; a borrowed reference, or null (perhaps after an exception).
PyObject* find_in(PyObject* dictionary, const Path& names) {
    PyObject* found = PyDict_GetItemWithError(dictionary, names[0]);
    for (size_t i = 1; i < names.size() && found != nullptr; ++i) {
        const Owned inner(PyObject_GenericGetDict(found, nullptr));
        found = inner ? PyDict_GetItemWithError(inner.get(), names[i]) : nullptr;
    }
    return found;
}

// One of the two distributions: its attributes, its batch shape, and whether that is ().
struct Side {
    Owned attributes;
    PyObject* shape;
    bool single;

    explicit Side(PyObject* distribution) : attributes(PyObject_GenericGetDict(distribution, nullptr)), shape(nullptr), single(false) {
        if (attributes) shape = PyDict_GetItemWithError(attributes.get(), name_.batch_shape);
        single = shape != nullptr && PyTuple_Size(shape) == 0;
    }
};

template <class T>
bool has_nan(const void* data, int64_t count) {
    const T* values = static_cast<const T*>(data);
    bool found = false;
    for (int64_t i = 0; i < count; ++i) found |= values[i] != values[i];
    return found;
}

bool has_nan(int64_t dtype, const void* data, int64_t count) {
    return dtype == 0 ? has_nan<double>(data, count) : has_nan<float>(data, count);
}

// Fills in the operands, the dtype and the count; `like` becomes a dense tensor of the result's shape, or stays null. An infinite
// divergence has no operands: nothing but a NaN among the parameters changes it, and that is left to the caller.
int read_side(const Bound& bound, const Parameters& parameters, const Side& side, bool repeated, int* next, PairCall* call,
              PyObject** like, PyObject** any) {
    const int64_t each = parameters.parts ? parameters.parts : 1;
    for (const Path& path : parameters.paths) {
        PyObject* const tensor = find_in(side.attributes.get(), path);
        if (tensor == nullptr) return PyErr_Occurred() ? -1 : 0;
        Elements found;
        const int ordinary = look_at(tensor, true, &found);
        if (ordinary != 1) return ordinary;
        if (*any == nullptr) call->dtype = found.dtype;
        *any = tensor;
        if (!repeated && call->columns < 0) call->columns = found.count / each;
        const int64_t expected = repeated ? each : call->columns * each;
        if (found.dtype != call->dtype || found.count == 0 || found.count != expected) return 0;
        if (!found.contiguous && !(found.repeated && each == 1)) return 0;
        const bool dense = found.contiguous && !repeated;
        if (dense && parameters.parts == 0) *like = tensor;
        if (bound.entry == nullptr) {
            if (has_nan(found.dtype, found.data, found.contiguous ? found.count : 1)) return 0;
            continue;
        }
        const int64_t size = call->dtype == 0 ? 8 : 4;
        for (int64_t k = 0; k < each; ++k) {
            const void* const data = static_cast<const char*>(found.data) + k * size;
            call->inputs[(*next)++] = {data, dense && each == 1 ? found.count : 0, dense ? each : 0};
        }
    }
    return 1;
}

template <class T>
void fill_with_infinity(void* data, int64_t count) {
    std::fill_n(static_cast<T*>(data), count, std::numeric_limits<T>::infinity());
}

PyObject* run(const Bound& bound, PairCall& call, PyObject* like, PyObject* any, PyObject* shape) {
    call.function = bound.function, call.rows = 1, call.threads = 1;
    if (call.columns > kSmall) {
        const Owned setting(PyObject_CallNoArgs(torch_.threads));
        if (!setting) return nullptr;
        call.threads = PyLong_AsLong(setting.get());
    }
    Owned output(like != nullptr ? PyObject_CallFunctionObjArgs(torch_.empty_like, like, nullptr)
                                 : PyObject_CallMethodObjArgs(any, name_.new_empty, shape, nullptr));
    Elements made;
    const int seen = output ? look_at_memory(output.get(), &made) : -1;
    if (seen < 0) return nullptr;
    if (seen == 0) Py_RETURN_NOTIMPLEMENTED;
    call.value = made.data;
    int32_t status = 0;
    if (bound.entry == nullptr) {
        call.dtype == 0 ? fill_with_infinity<double>(made.data, call.columns) : fill_with_infinity<float>(made.data, call.columns);
    } else if (call.columns <= kSmall) {
        status = bound.entry(&call);
    } else {
        Py_BEGIN_ALLOW_THREADS;
        status = bound.entry(&call);
        Py_END_ALLOW_THREADS;
    }
    if (status != 0) return PyErr_Format(PyExc_RuntimeError, "a pair kernel refused its arguments (status %d)", status);
    // The caller finds out whether a parameter explains it.
    if (has_nan(call.dtype, made.data, call.columns)) Py_RETURN_NOTIMPLEMENTED;
    return output.release();
}

PyObject* call(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    const auto* bound = static_cast<const Bound*>(PyCapsule_GetPointer(self, nullptr));
    if (bound == nullptr) return nullptr;
    if (count != 2) Py_RETURN_NOTIMPLEMENTED;
    const Side p(arguments[0]), q(arguments[1]);
    int ordinary = p.shape != nullptr && q.shape != nullptr ? nobody_follows() : (PyErr_Occurred() ? -1 : 0);
    // One shape, or a single distribution beside a batch.
    if (ordinary == 1 && p.single == q.single) ordinary = PyObject_RichCompareBool(p.shape, q.shape, Py_EQ);
    PairCall request{};
    request.columns = -1;
    PyObject *like = nullptr, *any = nullptr;
    // The batch first, which says how many elements there are.
    const bool q_first = p.single && !q.single;
    const Parameters &own = bound->p, &other = bound->q;
    int of_p = 0, of_q = static_cast<int>(own.paths.size()) * static_cast<int>(own.parts ? own.parts : 1);
    if (ordinary == 1 && q_first) ordinary = read_side(*bound, other, q, false, &of_q, &request, &like, &any);
    if (ordinary == 1) ordinary = read_side(*bound, own, p, q_first, &of_p, &request, &like, &any);
    if (ordinary == 1 && !q_first) ordinary = read_side(*bound, other, q, q.single && !p.single, &of_q, &request, &like, &any);
    if (ordinary < 0 || PyErr_Occurred()) return nullptr;
    if (ordinary == 0) Py_RETURN_NOTIMPLEMENTED;
    return run(*bound, request, like, any, q_first ? q.shape : p.shape);
}

PyMethodDef call_method = {"pair_call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)), METH_FASTCALL,
                           "The divergence of two distributions, or NotImplemented."};

void release(Bound* bound) {
    for (const Parameters* side : {&bound->p, &bound->q}) {
        for (const Path& path : side->paths) {
            for (PyObject* name : path) Py_DECREF(name);
        }
    }
    delete bound;
}

// New references to the strings of a list of lists, interned: names of attributes are, and so the two are one object.
bool read_paths(PyObject* lists, std::vector<Path>* paths) {
    for (Py_ssize_t i = 0; i < PyList_Size(lists); ++i) {
        PyObject* const list = PyList_GetItem(lists, i);
        paths->emplace_back();
        for (Py_ssize_t k = 0; k < PyList_Size(list); ++k) {
            PyObject* name = PyList_GetItem(list, k);
            Py_INCREF(name);
            PyUnicode_InternInPlace(&name);
            paths->back().push_back(name);
        }
    }
    return !PyErr_Occurred();
}

}  // namespace

PyObject* bind_pair(PyObject*, PyObject* args) {
    unsigned long long entry;
    long long function, parts_p, parts_q;
    PyObject *paths_p, *paths_q;
    if (!PyArg_ParseTuple(args, "KLOLOL", &entry, &function, &paths_p, &parts_p, &paths_q, &parts_q)) return nullptr;
    auto* bound = new Bound{reinterpret_cast<Entry>(static_cast<uintptr_t>(entry)), function, {{}, parts_p}, {{}, parts_q}};
    Owned capsule(nullptr);
    if (read_paths(paths_p, &bound->p.paths) && read_paths(paths_q, &bound->q.paths)) {
        capsule.reset(PyCapsule_New(bound, nullptr, [](PyObject* c) { release(static_cast<Bound*>(PyCapsule_GetPointer(c, nullptr))); }));
    }
    if (!capsule) {
        release(bound);
        return nullptr;
    }
    return PyCFunction_NewEx(&call_method, capsule.get(), nullptr);
}
