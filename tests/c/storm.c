/* Random traffic: every rank draws the same list of messages (who, to whom, size, layouts, mode,
 * communicator), starts its own part of it in an order of its own with everything open at once, takes
 * some by matched probe, and checks every byte.
 *
 * Arguments: [seconds, default 2] [seed, default 1]
 */
#include "check.h"

enum { BATCH = 120, COMMS = 3 };

static uint64_t state;

static unsigned draw(unsigned below)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (unsigned)(state >> 11) % below;
}

static size_t some_size(void)
{
    static const unsigned limits[] = {1, 64, 64, 2100, 2100, 40000, 40000, 300000};
    return draw(limits[draw(8)]);
}

typedef struct {
    int from, to, comm, synchronous, probed, out_layout, in_layout;
    size_t bytes;
} Message;

/* One side of a message, under way. */
typedef struct {
    int message, receiving;
    unsigned char *memory;
} Open;

static Message all[BATCH];
static Open open[2 * BATCH];
static MPI_Request requests[2 * BATCH];
static MPI_Comm comms[COMMS];

static void start(Open *o, MPI_Request *request, unsigned round)
{
    const Message *m = &all[o->message];
    int layout = o->receiving ? m->in_layout : m->out_layout, count, tag = o->message;
    size_t span = t_span(layout, m->bytes);
    MPI_Datatype type = t_type(layout, m->bytes, &count);
    MPI_Status s;
    o->memory = t_alloc(span + 1);
    if (!o->receiving) {
        t_fill(o->memory, layout, m->bytes, (unsigned)m->from, round * BATCH + (unsigned)tag);
        if (m->synchronous)
            OK(MPI_Issend(o->memory, count, type, m->to, tag, comms[m->comm], request));
        else
            OK(MPI_Isend(o->memory, count, type, m->to, tag, comms[m->comm], request));
    } else {
        memset(o->memory, 0x5A, span + 1);
        if (m->probed) {
            MPI_Message message;
            int got;
            OK(MPI_Mprobe(m->from, tag, comms[m->comm], &message, &s));
            OK(MPI_Get_count(&s, MPI_BYTE, &got));
            SAME(got, m->bytes);
            OK(MPI_Imrecv(o->memory, count, type, &message, request));
        } else {
            OK(MPI_Irecv(o->memory, count, type, tag % 5 ? m->from : MPI_ANY_SOURCE, tag, comms[m->comm], request));
        }
    }
    OK(MPI_Type_free(&type)); /* in use: it goes when the message is over */
}

static void finish(Open *o, const MPI_Status *s, unsigned round)
{
    const Message *m = &all[o->message];
    if (o->receiving) {
        SAME(s->MPI_SOURCE, m->from);
        SAME(s->MPI_TAG, o->message);
        VERIFY(o->memory, m->in_layout, m->bytes, (unsigned)m->from, round * BATCH + (unsigned)o->message);
    }
    free(o->memory);
}

static void batch(unsigned round)
{
    for (int i = 0; i < BATCH; i++) {
        all[i] = (Message){(int)draw((unsigned)t_size), (int)draw((unsigned)t_size), (int)draw(COMMS), (int)draw(2), draw(6) == 0,
                           (int)draw(T_LAYOUTS), (int)draw(T_LAYOUTS), some_size()};
    }
    uint64_t common = state;
    state += (uint64_t)(t_rank + 1) * 0x9e3779b97f4a7c15u;
    int n = 0, late = 0, order[BATCH];
    for (int i = 0; i < BATCH; i++) {
        int at = (int)draw((unsigned)i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (int k = 0; k < BATCH; k++) {
        const Message *m = &all[order[k]];
        for (int receiving = 0; receiving < 2; receiving++)
            if ((receiving ? m->to : m->from) == t_rank && !(receiving && m->probed)) {
                open[n] = (Open){order[k], receiving, NULL};
                start(&open[n], &requests[n], round);
                n++;
            }
    }
    for (int i = 0; i < BATCH; i++) /* those to be probed, when everything of ours is on its way */
        if (all[i].to == t_rank && all[i].probed) {
            open[n] = (Open){i, 1, NULL};
            start(&open[n], &requests[n], round);
            n++, late++;
        }
    int way = (int)draw(3), done = 0;
    while (done < n) {
        MPI_Status states[2 * BATCH];
        int indices[2 * BATCH], count = 0;
        if (way == 0) {
            OK(MPI_Waitall(n, requests, states));
            for (count = 0; count < n; count++)
                indices[count] = count;
        } else if (way == 1) {
            OK(MPI_Waitany(n, requests, indices, states));
            count = 1;
        } else {
            OK(MPI_Testsome(n, requests, &count, indices, states));
        }
        for (int i = 0; i < count; i++)
            finish(&open[indices[i]], &states[i], round);
        done += count;
    }
    state = common;
}

int main(int argc, char **argv)
{
    t_init(&argc, &argv);
    double until = t_seconds() + (argc > 1 ? atof(argv[1]) : 2);
    state = 0x2545f4914f6cdd1du * (uint64_t)(argc > 2 ? atol(argv[2]) : 1);
    comms[0] = MPI_COMM_WORLD;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
    OK(MPI_Comm_dup(comms[1], &comms[2]));
    int go = 1;
    unsigned round = 0;
    while (go) {
        batch(round++);
        /* A batch's wildcard receives must not see the next batch's messages. */
        OK(MPI_Barrier(MPI_COMM_WORLD));
        go = t_seconds() < until;
        OK(MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD));
    }
    OK(MPI_Comm_free(&comms[1]));
    OK(MPI_Comm_free(&comms[2]));
    if (t_rank == 0)
        fprintf(stderr, "storm: %u batches of %d messages\n", round, BATCH);
    return t_done("storm");
}
