/* Which slice encloses which, as nesting.py finds it: one pass with a stack, the parents themselves being the stack. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

enum { STARTS, ENDS, PARENT, DEPTH, COLUMNS };

static void perform(const int64_t *starts, const int64_t *ends, int64_t *parent, int64_t *depth, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        int64_t above = i - 1;
        while (above >= 0 && ends[above] <= starts[i]) above = parent[above];
        parent[i] = above;
        depth[i] = above >= 0 ? depth[above] + 1 : 0;
    }
}

PyDoc_STRVAR(nest_doc,
"nest(starts, ends, parent, depth)\n--\n\nFill `parent` and `depth` of slices that are in order of their starts; all are int64.\n"
"ValueError where they are not of one length.");

static PyObject *nest(PyObject *self, PyObject *args)
{
    PyObject *given[COLUMNS];
    Py_buffer views[COLUMNS];
    int taken = 0;
    if (!PyArg_ParseTuple(args, "OOOO:nest", &given[STARTS], &given[ENDS], &given[PARENT], &given[DEPTH])) return NULL;
    for (; taken < COLUMNS; taken++)
        if (PyObject_GetBuffer(given[taken], &views[taken], taken >= PARENT ? PyBUF_CONTIG : PyBUF_CONTIG_RO) < 0) break;
    if (taken == COLUMNS) {
        Py_ssize_t bytes = views[STARTS].len;
        if (views[ENDS].len != bytes || views[PARENT].len != bytes || views[DEPTH].len != bytes)
            PyErr_SetString(PyExc_ValueError, "the columns are not of one length");
        else
            perform(views[STARTS].buf, views[ENDS].buf, views[PARENT].buf, views[DEPTH].buf,
                    bytes / (Py_ssize_t)sizeof(int64_t));
    }
    while (taken > 0) PyBuffer_Release(&views[--taken]);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"nest", nest, METH_VARARGS, nest_doc}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_nest", "Slices inside each other.", 0, methods};

PyMODINIT_FUNC PyInit__nest(void)
{
    return PyModuleDef_Init(&module);
}
