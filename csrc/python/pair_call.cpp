#include "pair_call.h"

#include <vector>

#include "../pairs/program.h"
#include "questions.h"

namespace {

using kullback::Program;
using kullback::ProgramCall;
using Entry = int32_t (*)(const ProgramCall*);

struct Path {
    int side;
    std::vector<PyObject*> names;
    int64_t parts;
    int unused;  // only its shape and dtype count
};

struct Bound {
    Entry entry;
    const Program* program;
    PyObject* keep_alive;
    std::vector<Path> inputs, absent;
    bool partial;
};

// What an object's own dictionary holds under a path of names; a borrowed reference, or null (perhaps after an exception).
PyObject* find_in(PyObject* object, const std::vector<PyObject*>& names) {
    for (PyObject* name : names) {
        const Owned dictionary(PyObject_GenericGetDict(object, nullptr));
        object = dictionary ? PyDict_GetItemWithError(dictionary.get(), name) : nullptr;
        if (object == nullptr) return nullptr;
    }
    return object;
}

PyObject* batch_shape_of(PyObject* law) {
    const Owned dictionary(PyObject_GenericGetDict(law, nullptr));
    return dictionary ? PyDict_GetItemWithError(dictionary.get(), name_.batch_shape) : nullptr;
}

int same_batch_shape(PyObject* p, PyObject* q) {
    PyObject *of_p = batch_shape_of(p), *of_q = batch_shape_of(q);
    if (of_p == nullptr || of_q == nullptr) return PyErr_Occurred() ? -1 : 0;
    return of_p == of_q ? 1 : PyObject_RichCompareBool(of_p, of_q, Py_EQ);
}

// Fills in the operands, the dtype and the count; `like` becomes a tensor of the result's shape, or stays null.
int read_inputs(const Bound& bound, PyObject* const* laws, ProgramCall* call, PyObject** like, PyObject** any) {
    const int grad_enabled = is(Owned(PyObject_CallNoArgs(torch_.grad_enabled)), Py_True);
    if (grad_enabled < 0) return -1;
    int next = 0;
    for (const Path& path : bound.inputs) {
        PyObject* const tensor = find_in(laws[path.side], path.names);
        if (tensor == nullptr) return PyErr_Occurred() ? -1 : 0;
        Elements found;
        const int ordinary = look_at(tensor, grad_enabled == 1, path.unused == 0, &found);
        if (ordinary != 1) return ordinary;
        const int64_t each = path.parts ? path.parts : 1;
        if (next == 0) *any = tensor, call->dtype = found.dtype, call->columns = found.count / each;
        if (found.dtype != call->dtype || found.count == 0 || found.count != call->columns * each) return 0;
        const bool repeats = found.repeated && each == 1;
        if (!found.contiguous && !repeats && !path.unused) return 0;
        if (path.parts == 0 && found.contiguous) *like = tensor;
        const int64_t size = call->dtype == 0 ? 8 : 4;
        for (int64_t k = 0; k < each; ++k) {
            const void* const data = static_cast<const char*>(found.data) + k * size;
            call->inputs[next++] = {data, each == 1 && found.contiguous ? found.count : 0, found.contiguous ? each : 0};
        }
    }
    return 1;
}

template <class T>
bool has_nan(const void* data, int64_t count) {
    const T* values = static_cast<const T*>(data);
    bool found = false;
    for (int64_t i = 0; i < count; ++i) found |= values[i] != values[i];
    return found;
}

PyObject* make_output(PyObject* like, PyObject* any, PyObject* law) {
    if (like != nullptr) return PyObject_CallFunctionObjArgs(torch_.empty_like, like, nullptr);
    PyObject* const shape = batch_shape_of(law);
    return shape == nullptr ? nullptr : PyObject_CallMethodObjArgs(any, name_.new_empty, shape, nullptr);
}

template <class T>
void fill(void* data, int64_t count, double value) {
    for (int64_t i = 0; i < count; ++i) static_cast<T*>(data)[i] = T(value);
}

// The one number that the program says whatever its inputs are, or null.
const double* constant_of(const Program& program) {
    const int64_t at = program.outputs[0] - program.input_count;
    return at >= 0 && at < program.constant_count ? program.constants() + at : nullptr;
}

PyObject* run(const Bound& bound, ProgramCall& call, PyObject* like, PyObject* any, PyObject* law) {
    call.program = bound.program, call.rows = 1, call.threads = 1;
    if (call.columns > kSmall) {
        const Owned setting(PyObject_CallNoArgs(torch_.threads));
        if (!setting) return nullptr;
        call.threads = PyLong_AsLong(setting.get());
    }
    Owned output(make_output(like, any, law));
    const Owned pointer(output ? method(output.get(), name_.data_ptr) : nullptr);
    if (!pointer) return nullptr;
    call.outputs[0] = {PyLong_AsVoidPtr(pointer.get()), 1};
    if (const double* constant = constant_of(*bound.program)) {
        call.dtype == 0 ? fill<double>(call.outputs[0].data, call.columns, *constant)
                        : fill<float>(call.outputs[0].data, call.columns, *constant);
        return output.release();
    }
    int32_t status;
    if (call.columns <= kSmall) {
        status = bound.entry(&call);
    } else {
        Py_BEGIN_ALLOW_THREADS;
        status = bound.entry(&call);
        Py_END_ALLOW_THREADS;
    }
    if (status != 0) return PyErr_Format(PyExc_RuntimeError, "a recorded program refused its arguments (status %d)", status);
    const void* const data = call.outputs[0].data;
    if (bound.partial && (call.dtype == 0 ? has_nan<double>(data, call.columns) : has_nan<float>(data, call.columns))) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    return output.release();
}

PyObject* call(PyObject* self, PyObject* const* laws, Py_ssize_t count) {
    const auto* bound = static_cast<const Bound*>(PyCapsule_GetPointer(self, nullptr));
    if (bound == nullptr) return nullptr;
    ProgramCall request{};
    PyObject *like = nullptr, *any = nullptr;
    int ordinary = count == 2 ? nobody_follows() : 0;
    for (const Path& path : bound->absent) {
        if (ordinary == 1 && find_in(laws[path.side], path.names) != nullptr) ordinary = 0;
    }
    if (ordinary == 1) ordinary = same_batch_shape(laws[0], laws[1]);
    if (ordinary == 1) ordinary = read_inputs(*bound, laws, &request, &like, &any);
    if (ordinary < 0 || PyErr_Occurred()) return nullptr;
    if (ordinary == 0) Py_RETURN_NOTIMPLEMENTED;
    return run(*bound, request, like, any, laws[0]);
}

PyMethodDef call_method = {"pair_call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)), METH_FASTCALL,
                           "The divergence of two distributions, or NotImplemented."};

// Appends the entries (side, names, ...) of a list; false after an exception.
bool read_paths(PyObject* list, std::vector<Path>* paths) {
    for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
        PyObject* const entry = PyList_GetItem(list, i);
        PyObject* names;
        Path path{0, {}, 0, 0};
        if (!PyArg_ParseTuple(entry, "iO|Lp", &path.side, &names, &path.parts, &path.unused)) return false;
        for (Py_ssize_t k = 0; k < PyList_Size(names); ++k) {
            PyObject* name = PyList_GetItem(names, k);
            Py_INCREF(name);
            path.names.push_back(name);
        }
        paths->push_back(path);
    }
    return !PyErr_Occurred();
}

void release(Bound* bound) {
    for (const auto* paths : {&bound->inputs, &bound->absent}) {
        for (const Path& path : *paths) {
            for (PyObject* name : path.names) Py_DECREF(name);
        }
    }
    Py_XDECREF(bound->keep_alive);
    delete bound;
}

}  // namespace

PyObject* bind_pair(PyObject*, PyObject* args) {
    unsigned long long entry, program;
    PyObject *keep_alive, *inputs, *absent;
    int partial;
    if (!PyArg_ParseTuple(args, "KKOOOp", &entry, &program, &keep_alive, &inputs, &absent, &partial)) return nullptr;
    Py_INCREF(keep_alive);
    auto* bound = new Bound{reinterpret_cast<Entry>(static_cast<uintptr_t>(entry)),
                            reinterpret_cast<const Program*>(static_cast<uintptr_t>(program)), keep_alive, {}, {}, partial != 0};
    if (!read_paths(inputs, &bound->inputs) || !read_paths(absent, &bound->absent)) {
        release(bound);
        return nullptr;
    }
    Owned capsule(PyCapsule_New(bound, nullptr, [](PyObject* c) { release(static_cast<Bound*>(PyCapsule_GetPointer(c, nullptr))); }));
    if (!capsule) {
        release(bound);
        return nullptr;
    }
    return PyCFunction_NewEx(&call_method, capsule.get(), nullptr);
}
