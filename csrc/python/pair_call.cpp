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

// Of two names for one parameter the maker of an object gave the first; torch may have cached the second.
struct Choice {
    Path owner;
    PyObject *given, *other;
};

struct Bound {
    Entry entry;
    const Program* program;
    PyObject* keep_alive;
    std::vector<Path> inputs;
    std::vector<Choice> choices;
    bool partial;
};

// Two distributions with what they hold.
struct Laws {
    Owned of_p, of_q;

    explicit Laws(PyObject* const* laws) : of_p(PyObject_GenericGetDict(laws[0], nullptr)), of_q(PyObject_GenericGetDict(laws[1], nullptr)) {}
    PyObject* operator[](int side) const { return side == 0 ? of_p.get() : of_q.get(); }
};

// What a dictionary holds under a path of attributes; a borrowed reference, or null (perhaps after an exception).
PyObject* find_in(PyObject* dictionary, const std::vector<PyObject*>& names) {
    PyObject* found = PyDict_GetItemWithError(dictionary, names[0]);
    for (size_t i = 1; i < names.size() && found != nullptr; ++i) {
        const Owned inner(PyObject_GenericGetDict(found, nullptr));
        found = inner ? PyDict_GetItemWithError(inner.get(), names[i]) : nullptr;
    }
    return found;
}

// Whether the first of two names is the given one, as `pairs/parameters.py` tells it: a maker stores what it was given before
// the shape of the batch, torch caches the other one after it.
int is_as_given(const Choice& choice, PyObject* dictionary) {
    Owned inner(nullptr);
    if (!choice.owner.names.empty()) {
        PyObject* const owner = find_in(dictionary, choice.owner.names);
        if (owner == nullptr) return PyErr_Occurred() ? -1 : 0;
        inner.reset(PyObject_GenericGetDict(owner, nullptr));
        if (!inner) return -1;
        dictionary = inner.get();
    }
    if (PyDict_GetItemWithError(dictionary, choice.other) == nullptr) return PyErr_Occurred() ? -1 : 1;
    bool has_given = false;
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(dictionary, &at, &key, &value)) {
        if (key == choice.other) return 0;
        if (key == choice.given) has_given = true;
        if (key == name_.batch_shape) return has_given;
    }
    return 0;
}

int same_batch_shape(const Laws& laws) {
    PyObject* const of_p = PyDict_GetItemWithError(laws[0], name_.batch_shape);
    PyObject* const of_q = of_p == nullptr ? nullptr : PyDict_GetItemWithError(laws[1], name_.batch_shape);
    if (of_p == nullptr || of_q == nullptr) return PyErr_Occurred() ? -1 : 0;
    return of_p == of_q ? 1 : PyObject_RichCompareBool(of_p, of_q, Py_EQ);
}

// Fills in the operands, the dtype and the count; `like` becomes a tensor of the result's shape, or stays null.
int read_inputs(const Bound& bound, const Laws& laws, ProgramCall* call, PyObject** like, PyObject** any) {
    int next = 0;
    for (const Path& path : bound.inputs) {
        PyObject* const tensor = find_in(laws[path.side], path.names);
        if (tensor == nullptr) return PyErr_Occurred() ? -1 : 0;
        Elements found;
        const int ordinary = look_at(tensor, path.unused == 0, &found);
        if (ordinary != 1) return ordinary;
        const int64_t each = path.parts ? path.parts : 1;
        if (next == 0) *any = tensor, call->dtype = found.dtype, call->columns = found.count / each;
        if (found.dtype != call->dtype || found.count == 0 || found.count != call->columns * each) return 0;
        const bool repeats = found.repeated && each == 1;
        if (!found.contiguous && !repeats) return 0;
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
bool has_nan(const void* data, int64_t count, int64_t stride = 1) {
    const T* values = static_cast<const T*>(data);
    bool found = false;
    if (stride == 1) {
        for (int64_t i = 0; i < count; ++i) found |= values[i] != values[i];
    } else {
        for (int64_t i = 0; i < count; ++i) found |= values[i * stride] != values[i * stride];
    }
    return found;
}

// Whether an input is no number somewhere: what a program says whatever its inputs are it does not say of those.
bool has_lost_input(const ProgramCall& call) {
    bool found = false;
    for (int64_t k = 0; k < call.program->input_count; ++k) {
        const kullback::Operand& input = call.inputs[k];
        const int64_t step = input.column_stride, count = step == 0 ? 1 : call.columns;
        found |= call.dtype == 0 ? has_nan<double>(input.data, count, step) : has_nan<float>(input.data, count, step);
    }
    return found;
}

PyObject* make_output(PyObject* like, PyObject* any, const Laws& laws) {
    if (like != nullptr) return PyObject_CallFunctionObjArgs(torch_.empty_like, like, nullptr);
    PyObject* const shape = PyDict_GetItemWithError(laws[0], name_.batch_shape);
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

PyObject* run(const Bound& bound, ProgramCall& call, PyObject* like, PyObject* any, const Laws& laws) {
    call.program = bound.program, call.rows = 1, call.threads = 1;
    if (call.columns > kSmall) {
        const Owned setting(PyObject_CallNoArgs(torch_.threads));
        if (!setting) return nullptr;
        call.threads = PyLong_AsLong(setting.get());
    }
    Owned output(make_output(like, any, laws));
    Elements made;
    const int seen = output ? look_at_memory(output.get(), &made) : -1;
    if (seen < 0) return nullptr;
    if (seen == 0) Py_RETURN_NOTIMPLEMENTED;
    call.outputs[0] = {made.data, 1};
    if (const double* constant = constant_of(*bound.program)) {
        if (has_lost_input(call)) Py_RETURN_NOTIMPLEMENTED;
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

PyObject* call(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    const auto* bound = static_cast<const Bound*>(PyCapsule_GetPointer(self, nullptr));
    if (bound == nullptr) return nullptr;
    ProgramCall request{};
    PyObject *like = nullptr, *any = nullptr;
    if (count != 2) Py_RETURN_NOTIMPLEMENTED;
    const Laws laws(arguments);
    int ordinary = laws[0] != nullptr && laws[1] != nullptr ? nobody_follows() : -1;
    for (const Choice& choice : bound->choices) {
        if (ordinary == 1) ordinary = is_as_given(choice, laws[choice.owner.side]);
    }
    if (ordinary == 1) ordinary = same_batch_shape(laws);
    if (ordinary == 1) ordinary = read_inputs(*bound, laws, &request, &like, &any);
    if (ordinary < 0 || PyErr_Occurred()) return nullptr;
    if (ordinary == 0) Py_RETURN_NOTIMPLEMENTED;
    return run(*bound, request, like, any, laws);
}

PyMethodDef call_method = {"pair_call", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(call)), METH_FASTCALL,
                           "The divergence of two distributions, or NotImplemented."};

// New references to the strings of a list, interned: names of attributes are, and so the two are one object.
std::vector<PyObject*> interned(PyObject* list) {
    std::vector<PyObject*> found;
    for (Py_ssize_t k = 0; k < PyList_Size(list); ++k) {
        PyObject* name = PyList_GetItem(list, k);
        Py_INCREF(name);
        PyUnicode_InternInPlace(&name);
        found.push_back(name);
    }
    return found;
}

// Appends the entries (side, names, parts, unused) of a list; false after an exception.
bool read_paths(PyObject* list, std::vector<Path>* paths) {
    for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
        PyObject* const entry = PyList_GetItem(list, i);
        PyObject* names;
        Path path{0, {}, 0, 0};
        if (!PyArg_ParseTuple(entry, "iOLp", &path.side, &names, &path.parts, &path.unused)) return false;
        path.names = interned(names);
        paths->push_back(path);
    }
    return !PyErr_Occurred();
}

// Appends the entries (side, names of the owner, given, other) of a list; false after an exception.
bool read_choices(PyObject* list, std::vector<Choice>* choices) {
    for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
        PyObject *names, *two;
        Choice choice{{0, {}, 0, 0}, nullptr, nullptr};
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "iOO", &choice.owner.side, &names, &two)) return false;
        choice.owner.names = interned(names);
        const std::vector<PyObject*> both = interned(two);
        if (both.size() != 2) return false;
        choice.given = both[0], choice.other = both[1];
        choices->push_back(choice);
    }
    return !PyErr_Occurred();
}

void release(Bound* bound) {
    const auto drop = [](const Path& path) {
        for (PyObject* name : path.names) Py_DECREF(name);
    };
    for (const Path& path : bound->inputs) drop(path);
    for (const Choice& choice : bound->choices) {
        drop(choice.owner);
        Py_DECREF(choice.given);
        Py_DECREF(choice.other);
    }
    Py_XDECREF(bound->keep_alive);
    delete bound;
}

}  // namespace

PyObject* bind_pair(PyObject*, PyObject* args) {
    unsigned long long entry, program;
    PyObject *keep_alive, *inputs, *choices;
    int partial;
    if (!PyArg_ParseTuple(args, "KKOOOp", &entry, &program, &keep_alive, &inputs, &choices, &partial)) return nullptr;
    Py_INCREF(keep_alive);
    auto* bound = new Bound{reinterpret_cast<Entry>(static_cast<uintptr_t>(entry)),
                            reinterpret_cast<const Program*>(static_cast<uintptr_t>(program)), keep_alive, {}, {}, partial != 0};
    if (!read_paths(inputs, &bound->inputs) || !read_choices(choices, &bound->choices)) {
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
