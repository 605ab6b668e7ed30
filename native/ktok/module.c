/* The tokenizer as Python sees it: text goes in, columns and what their codes mean come out. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "ktok.h"

typedef struct {
    PyObject_HEAD
    Tokenizer tokenizer;
} Reader;

static PyObject *reader_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, ""))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Reader *reader = (Reader *)allocate(type, 0); /* all zeros */
    if (reader != NULL && tokenizer_open(&reader->tokenizer) != READ_OK) {
        Py_DECREF(reader);
        return PyErr_NoMemory();
    }
    return (PyObject *)reader;
}

static void reader_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    tokenizer_close(&((Reader *)self)->tokenizer);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *reader_read(PyObject *self, PyObject *source)
{
    Tokenizer *tokenizer = &((Reader *)self)->tokenizer;
    Py_buffer view;
    if (PyObject_GetBuffer(source, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    if (view.len < 1) {
        PyBuffer_Release(&view);
        return Py_BuildValue("in", (int)READ_CUT, (Py_ssize_t)0);
    }
    const unsigned char *start = view.buf;
    Text text = {start, start + view.len};
    Status status = tokenizer_read(tokenizer, text);
    Py_ssize_t taken = tokenizer->taken - start;
    PyBuffer_Release(&view);
    return status == READ_NO_MEMORY ? PyErr_NoMemory() : Py_BuildValue("in", (int)status, taken);
}

static PyObject *bytes_of(const void *values, size_t size)
{
    return PyBytes_FromStringAndSize(size ? values : "", (Py_ssize_t)size);
}

/* Put a new object at the end of a list; 0 where there is none or no room for it. */
static int appended(PyObject *list, PyObject *entry)
{
    int worked = entry != NULL && PyList_Append(list, entry) == 0;
    Py_XDECREF(entry);
    return worked;
}

static PyObject *core_of(const Core *core)
{
    size_t codes = core->rows * sizeof(int32_t), times = core->rows * sizeof(int64_t);
    return Py_BuildValue("(NNNNNN)", bytes_of(core->phase, codes), bytes_of(core->category, codes),
                         bytes_of(core->name, codes), bytes_of(core->thread, codes), bytes_of(core->start_ns, times),
                         bytes_of(core->dur_ns, times));
}

/* The spellings that are new since the last time: the slot, and the text. */
static PyObject *new_spellings(Tokenizer *tokenizer)
{
    const Spellings *known = &tokenizer->spellings;
    PyObject *list = PyList_New(0);
    for (uint32_t place = tokenizer->spellings_given; list != NULL && place < known->count; place++) {
        const Spelling *spelling = &known->all[place];
        PyObject *entry = Py_BuildValue("(iy#)", (int)spelling->slot, (const char *)known->bytes + spelling->start,
                                        (Py_ssize_t)spelling->length);
        if (!appended(list, entry))
            Py_CLEAR(list);
    }
    tokenizer->spellings_given = known->count;
    return list;
}

static PyObject *part_of(const Part *part)
{
    return Py_BuildValue("(iL)", (int)part->kind, (long long)part->value);
}

static PyObject *new_threads(Tokenizer *tokenizer)
{
    const Threads *known = &tokenizer->threads;
    PyObject *list = PyList_New(0);
    for (uint32_t place = tokenizer->threads_given; list != NULL && place < known->count; place++)
        if (!appended(list, Py_BuildValue("(NN)", part_of(&known->all[place].pid), part_of(&known->all[place].tid))))
            Py_CLEAR(list);
    tokenizer->threads_given = known->count;
    return list;
}

static PyObject *cells_of(uint32_t number, const Slot *slot, int kind)
{
    const Cells *cells = &slot->cells[kind];
    return Py_BuildValue("(iiNN)", (int)number, kind, bytes_of(cells->rows, cells->count * sizeof(int32_t)),
                         bytes_of(cells->values, cells->count * CELL_WIDTHS[kind]));
}

static PyObject *filled_cells(const Tokenizer *tokenizer)
{
    PyObject *list = PyList_New(0);
    for (uint32_t number = 0; list != NULL && number < tokenizer->slot_count; number++)
        for (int kind = 0; list != NULL && kind < CELL_KINDS; kind++)
            if (tokenizer->slots[number]->cells[kind].count &&
                !appended(list, cells_of(number, tokenizer->slots[number], kind)))
                Py_CLEAR(list);
    return list;
}

static PyObject *all_keys(const Tokenizer *tokenizer)
{
    PyObject *list = PyList_New(0);
    for (uint32_t number = 0; list != NULL && number < tokenizer->slot_count; number++) {
        const Slot *slot = tokenizer->slots[number];
        if (!appended(list, Py_BuildValue("s#", (const char *)slot->key, (Py_ssize_t)slot->length)))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *reader_drain(PyObject *self, PyObject *nothing)
{
    Tokenizer *tokenizer = &((Reader *)self)->tokenizer;
    (void)nothing;
    PyObject *found = Py_BuildValue("(INNNNN)", tokenizer->core.rows, core_of(&tokenizer->core), all_keys(tokenizer),
                                    new_spellings(tokenizer), new_threads(tokenizer), filled_cells(tokenizer));
    tokenizer_empty(tokenizer);
    return found;
}

static PyMethodDef METHODS[] = {
    {"read", reader_read, METH_O,
     "read(text) -> (status, taken)\n\nRead events from the comma or bracket that `text` starts with. `taken` bytes are "
     "read for good; what follows them starts with a comma or bracket again."},
    {"drain", reader_drain, METH_NOARGS,
     "drain() -> (rows, core, keys, spellings, threads, cells)\n\nHand over the rows read since the last time, and what "
     "of the codes in them is new."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot SLOTS[] = {
    {Py_tp_new, reader_new},
    {Py_tp_dealloc, reader_dealloc},
    {Py_tp_methods, METHODS},
    {Py_tp_doc, "The events of one chrome trace from JSON text into columns."},
    {0, NULL},
};

static PyType_Spec READER = {
    .name = "profiler_doctor.analyzer.formats._ktok.Tokenizer",
    .basicsize = sizeof(Reader),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = SLOTS,
};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_ktok", "The tokenizer of the kineto reader; see native/ktok.h.", -1, NULL, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__ktok(void)
{
    static const char *const statuses[] = {"OK", "CUT", "ODD", "FULL", "CLOSED"};
    static const char *const kinds[] = {"WHOLE", "FRACTION", "SPELLED", "NOTHING"};
    PyObject *module = PyModule_Create(&MODULE);
    PyObject *type = module ? PyType_FromSpec(&READER) : NULL;
    int worked = type != NULL && PyModule_AddObjectRef(module, "Tokenizer", type) == 0;
    for (int status = READ_OK; worked && status <= READ_CLOSED; status++)
        worked = PyModule_AddIntConstant(module, statuses[status], status) == 0;
    for (int kind = WHOLE; worked && kind < KINDS; kind++)
        worked = PyModule_AddIntConstant(module, kinds[kind], kind) == 0;
    Py_XDECREF(type);
    if (!worked)
        Py_CLEAR(module);
    return module;
}
