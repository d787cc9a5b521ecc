/* The engine of fredfw: flows on the links of a fabric, and schedules of collectives that run on them.
 *
 * Times are in seconds, sizes in bytes, rates in bytes per second. Arrays are the caller's, as long as the counts beside
 * them say: those of schedules, of what was lowered, of task graphs and of flows that were let in must stay as they are
 * until these are freed or over; others are read during the call. Offsets end with the count of what they lead to.
 * Indices, counts and the names of tickets, runs and batches are checked; a function that refuses its arguments changes
 * nothing, returns FREDFW_REFUSED (or NULL) and leaves a sentence in fredfw_error() with the field and the row. What there
 * is no memory for is refused with the bytes that it needs; a network in which memory ran out refuses all further calls.
 *
 * Each network may be used in a thread of its own, also with schedules that others use; a second call on one that is in use
 * is refused. Nothing is kept outside of the objects, and a process that was forked goes on with its copies.
 *
 * Order. What happens at one moment happens in this order: all that drains; then events by priority (0: ends of flows,
 * of computations and timers; 1: channels choose and ranks enter; 2: flows of schedules start together), of equal ones
 * those first that became known first. Events for this very moment that come up meanwhile belong to it. Flows drain
 * together whose remaining bytes are below 1e-11 of their size, or whose end is within 1e-15 of the clock.
 *
 * Rates are IEEE double operations in a fixed order without fused operations, so that equal calls give equal bits. */
#ifndef FREDFW_H
#define FREDFW_H

#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

#if defined(__GNUC__)
#define FREDFW_API __attribute__((visibility("default")))
#else
#define FREDFW_API
#endif

/* The version of this interface. */
#define FREDFW_ABI 9
FREDFW_API int64_t fredfw_abi(void);
/* What was wrong with the last call of this thread that was refused. */
FREDFW_API const char *fredfw_error(void);
#define FREDFW_REFUSED (-100)
#define FREDFW_NO_MEMORY (-101)

/* --- rates */

/* Set the max-min fair rates of flows, which begin as their caps; flow f crosses link[offset[f]] to link[offset[f + 1] - 1]
 * with the share `coefficient` of its rate (NULL: 1). Returns the passes over the flows. */
FREDFW_API int64_t fredfw_max_min(int64_t flows, int64_t links, const int64_t *offset, const int64_t *link,
                                  const double *coefficient, const double *capacity, double *rates);

/* --- schedules */

typedef struct fredfw_schedule fredfw_schedule;

typedef struct fredfw_phase {
    int64_t repeat;
    int64_t channel, turn; /* -1 for none; the turn is the first phase that has part in it */
    /* Phases, of those above, that must be done before, whose bytes must have left before, and that destinations must be done with. */
    int64_t after_count, behind_count, room_count;
    const int64_t *after, *behind, *room;
    /* Flows with one source and one destination, as ranks; then streams with several, as rows of ranks. */
    int64_t unicasts, streams, stream_sources, stream_destinations;
    const int64_t *source, *destination;
    const int64_t *stream_source_offset, *stream_source, *stream_destination_offset, *stream_destination;
    int64_t volume_count;  /* one for each flow, or one for all */
    const double *volumes; /* where all repetitions are alike; else NULL, and rows say */
    /* Row i carries at repetition t the chunks base[i] + (offset[i] + t * stride[i] + j) mod modulus[i], j < chunks[i]. */
    int64_t rows, chunk_count;
    const int64_t *base, *offset, *stride, *modulus, *chunks, *row_flow; /* flow of each row; NULL where each is one */
    const double *chunk_bytes;
    double turn_bytes; /* of all phases that have part in its turn, all their rows and repetitions */
} fredfw_phase;

#define FREDFW_SMALLEST_FIRST 1   /* a free channel takes the turn with the fewest bytes, else the one ready first */
#define FREDFW_RELEASES_DRAINED 2 /* a turn ends when all that it sends has drained, else when it is delivered */
FREDFW_API fredfw_schedule *fredfw_schedule_new(int64_t ranks, int64_t phases, const fredfw_phase *phase, int64_t flags);
FREDFW_API void fredfw_schedule_free(fredfw_schedule *schedule);

typedef struct fredfw_routes {
    int64_t count, pairs; /* flows, and the links that they cross together */
    const int64_t *offset, *link;
    const double *latency, *coefficient; /* seconds; share of the rate on each link, NULL for 1 */
} fredfw_routes;

typedef struct fredfw_flows {
    fredfw_routes routes; /* of the flows of all groups, group by group */
    const double *caps;   /* bytes per second that each does not exceed, or NULL */
    const uint8_t *open;  /* whether each starts at once, whatever runs, so that nobody is asked; NULL where none does */
} fredfw_flows;

/* A schedule among nodes of a fabric with so many links; launching takes so many seconds before the first flow. */
typedef struct fredfw_lowered fredfw_lowered;
FREDFW_API fredfw_lowered *fredfw_lowered_new(const fredfw_schedule *schedule, int64_t groups, double launch,
                                              int64_t links, int64_t phase_count, const fredfw_flows *phases);
FREDFW_API void fredfw_lowered_free(fredfw_lowered *lowered);

/* --- a network */

typedef struct fredfw_network fredfw_network;

enum { FREDFW_MAX_MIN = 0, FREDFW_STRICT_LINKS = 1, FREDFW_CIRCUIT_PREEMPT = 2, FREDFW_FOREIGN = 3 };

typedef struct fredfw_setting {
    int64_t links, nodes;
    const double *bandwidth;
    const int64_t *source, *destination; /* nodes at the ends of links */
    const uint8_t *is_switch;            /* of nodes */
    int64_t sharing;                     /* how links are shared; FOREIGN: the caller says, see fredfw_assign */
    int64_t local;                       /* whether flows without a common link never matter to each other */
    int64_t open;                        /* whether everything starts at once; else the caller is asked, see ASK */
    int64_t starts_streams;              /* whether streams need not be asked about one by one */
} fredfw_setting;

FREDFW_API fredfw_network *fredfw_network_new(const fredfw_setting *setting);
FREDFW_API void fredfw_network_free(fredfw_network *network);
/* Write all that it is and does, but for a task graph, with the arrays of others, as far as there is room; returns how many bytes that takes. A
 * network of the same setting that has done nothing reads it, and goes on with the same bits. */
FREDFW_API int64_t fredfw_save(fredfw_network *network, int64_t room, uint8_t *bytes);
FREDFW_API int64_t fredfw_load(fredfw_network *network, int64_t count, const uint8_t *bytes);

/* What the caller is to do; valid until the next step. */
typedef struct fredfw_notice {
    int64_t what, whose, detail;
    int64_t count, other_count;
    const int64_t *list, *others;
} fredfw_notice;

enum {
    FREDFW_OVER = 0,   /* nothing more happens until then */
    FREDFW_TIMER,      /* whose: the timer */
    FREDFW_ENDED,      /* whose: the ticket; list: activities that have ended; detail: whether that was all */
    FREDFW_DRAINED,    /* whose: the ticket; list: activities that have left their sources */
    FREDFW_CLOSED,     /* whose: the token of flows that are over */
    FREDFW_ASK,        /* whose: the run; detail: the carry; list: its flows, or groups; others: phase, repetition or -1,
                          whether it hears when they have drained. The caller lets them in, now or later. */
    FREDFW_RUN_ENDED,  /* whose: the run; list: groups */
    FREDFW_ROUTE,      /* whose: a batch; list: activities whose next repetitions begin, see fredfw_go_on */
    FREDFW_STREAM,     /* whose: a stream; detail: the load or store; list: its groups, see fredfw_streamed */
    FREDFW_RATES,      /* flows want rates, see fredfw_assign */
    FREDFW_MORE        /* so many events have happened, or some time has passed; call again */
};

/* Let things happen, at most to `until` and at most so many events; returns what the caller is to do. */
FREDFW_API int64_t fredfw_step(fredfw_network *network, double until, int64_t events, fredfw_notice *notice);
/* Take the notice behind so many others, without letting anything happen; returns what is to be done, OVER where there is
 * none. With -1 it returns how many there are. */
FREDFW_API int64_t fredfw_hear(fredfw_network *network, int64_t before, fredfw_notice *notice);
/* When something happens next, infinite if nothing will; NaN where flows want rates first, negative where it is refused. */
FREDFW_API double fredfw_next(fredfw_network *network);
FREDFW_API const double *fredfw_now(const fredfw_network *network);
/* Let time pass in which nothing happens. */
FREDFW_API int64_t fredfw_pass(fredfw_network *network, double until);
/* Count what is due now as a moment of its own. */
FREDFW_API int64_t fredfw_begin(fredfw_network *network);
FREDFW_API int64_t fredfw_is_idle(fredfw_network *network);
/* Returns the name of a timer that goes off in `delay` seconds. */
FREDFW_API int64_t fredfw_timer(fredfw_network *network, double delay, int64_t priority);
/* Take a timer back; one that has gone off, or never was, is no error. */
FREDFW_API int64_t fredfw_withdraw(fredfw_network *network, int64_t timer);

/* Flows that start together in activities, which each end on their own. */
typedef struct fredfw_cargo {
    fredfw_routes routes;
    int64_t flow;            /* which one it is, of all routes; -1 where it is all */
    const double *volumes;   /* of the flows; of the one flow */
    const double *caps;      /* or NULL */
    const int64_t *activity; /* of each flow; NULL where all are of one */
    int64_t activities, repeat;
    double first_setup, setup; /* seconds before the first repetition, and before each other */
    int64_t priority, label;
    int64_t takes_turns;       /* whether other flows run between two repetitions */
    int64_t ticket;            /* names it in notices; 0 for a carry */
    int64_t run, carry;        /* whose flows it is, where the ticket is 0 */
    int64_t token;             /* above 0: the caller hears when it is over */
    int64_t hears_drain;
} fredfw_cargo;

/* Let flows in, now. */
FREDFW_API int64_t fredfw_admit(fredfw_network *network, const fredfw_cargo *cargo);
/* Tell a run that the flows of a carry have left their sources, or ended; it has asked, and others were let in for them. */
FREDFW_API int64_t fredfw_tell(fredfw_network *network, int64_t run, int64_t carry, int64_t has_ended, int64_t count,
                               const int64_t *activities);
/* Take flows off the links; what was sent stays accounted. A ticket without flows is no error. */
FREDFW_API int64_t fredfw_cancel(fredfw_network *network, int64_t ticket);
/* Labels of batches with flows that have no rate, as far as there is room; returns how many, FREDFW_RATES as -1. */
FREDFW_API int64_t fredfw_stalled(fredfw_network *network, int64_t room, int64_t *labels);
/* Add up the bytes that have crossed each link, rows by label; `present` says which labels have sent anything. */
FREDFW_API int64_t fredfw_link_bytes(fredfw_network *network, int64_t labels, double *bytes, uint8_t *present);
/* events, batches, flows, solves, solved, passes, most_passes, met; batches under way with several repetitions */
FREDFW_API int64_t fredfw_statistics(const fredfw_network *network, int64_t *counts);
FREDFW_API int64_t fredfw_weigh(fredfw_network *network, int64_t label, double weight);

/* --- links */

FREDFW_API int64_t fredfw_set_bandwidths(fredfw_network *network, const double *values);
/* Numbers of the batches that are under way, in the order in which they were let in; returns how many there are. */
FREDFW_API int64_t fredfw_batches(const fredfw_network *network, int64_t room, int64_t *batches);

typedef struct fredfw_batch {
    int64_t ticket, run, carry, phase, repetition, label;
    int64_t is_crossing; /* whether any of its flows crosses a closed link */
    int64_t count;       /* of items: flows or groups of the carry */
    const int32_t *items;
} fredfw_batch;

FREDFW_API int64_t fredfw_describe(fredfw_network *network, int64_t batch, fredfw_batch *found);
/* Have flows of a batch that cross closed links take other routes, where those are open. Returns whether some of its flows
 * have no way; adds those that have moved to `moved`. */
FREDFW_API int64_t fredfw_reroute(fredfw_network *network, int64_t batch, const fredfw_routes *routes, int64_t *moved);
/* From now on repetitions that begin are to be routed, see ROUTE. */
FREDFW_API int64_t fredfw_route_repetitions(fredfw_network *network);
/* Begin the repetitions that activities of a batch still have, and that ROUTE told of, over these routes of all its flows. */
FREDFW_API int64_t fredfw_go_on(fredfw_network *network, int64_t batch, int64_t count, const int64_t *activities,
                                const fredfw_routes *routes);
/* Labels of flows that began while there was no way for them, when that first was, and how often; returns how many. */
FREDFW_API int64_t fredfw_held(const fredfw_network *network, int64_t room, int64_t *labels, double *first,
                               int64_t *times);

/* --- task graphs */

/* A task graph on a network. Rows of different lengths have offsets. A slot is a place among the participants of a table,
 * which are ranks in rising order. Kinds: 0 a computation, 1 a collective, 2 a transfer, 3 a load, 4 a store, 5 a send, 6 a
 * receive, 7 a wait. */
typedef struct fredfw_graph {
    int64_t ranks, way; /* how schedules run, as in fredfw_run_new */
    int64_t tables, participants, slots; /* who takes part in tasks */
    const int64_t *participant_offset, *participant, *groups, *group_size, *slot; /* slots of members, group by group */
    int64_t tasks, edges;
    const int64_t *kind, *members, *label, *priority, *partner; /* table; the other end of a message */
    const int64_t *whole, *times; /* whether all begin it together; repetitions */
    const double *seconds;                /* of computations and waits */
    const int64_t *edge_offset, *edge_task, *edge_map, *edge_count; /* tasks after each; slots there by slots here, or -1 */
    int64_t maps, map_slots;
    const int64_t *map_offset, *map; /* -1 for slots that the later task does not have */
    int64_t shares, share_groups, task_shares; /* schedules in groups of tasks; each group has one */
    const fredfw_lowered *const *share_lowered;
    const int64_t *share_group_offset, *share_group; /* group of the task of each group */
    const int64_t *share_offset, *share;             /* those of each task */
    int64_t factor_count;
    const int64_t *factor_offset;                    /* of each task */
    const double *factors; /* how many times longer a computation takes at each slot; NULL where nothing varies */
} fredfw_graph;

/* Start a task graph, the only one of the network. */
FREDFW_API int64_t fredfw_tasks_start(fredfw_network *network, const fredfw_graph *graph);
/* Note that groups, by their places in the notice STREAM, have been served. */
FREDFW_API int64_t fredfw_streamed(fredfw_network *network, int64_t stream, int64_t count, const int64_t *groups);
/* How many spans there are so far, ranks of them together, comparisons, and participants that have ended tasks. */
FREDFW_API int64_t fredfw_tasks_count(const fredfw_network *network, int64_t *counts);

typedef struct fredfw_record {
    int64_t *task, *trigger, *rank_offset, *rank; /* of spans, in the order of their ends; trigger is a span, or -1 */
    double *start, *end;
    int64_t *ended;                          /* participants of each task that have */
    int64_t *compared_task, *compared_share; /* when the first group of a share ran */
    double *compared_began, *compared_ended;
} fredfw_record;

FREDFW_API int64_t fredfw_tasks_record(const fredfw_network *network, const fredfw_record *record);
/* What a run is for: its task and share, and the groups of the task. Returns how many; -1 where it is for none. */
FREDFW_API int64_t fredfw_errand(const fredfw_network *network, int64_t run, int64_t *task, int64_t *share, int64_t room,
                                 int64_t *groups);

/* --- programs in files */

/* A task graph and the network that it runs on, as `fredfw export-program` writes them. Nobody is asked while it runs: all
 * starts at once, the engine knows the rates, and there are no loads and stores. */
typedef struct fredfw_program {
    fredfw_setting setting;
    fredfw_graph graph;
    int64_t npus;
    fredfw_routes routes;    /* of messages from NPU s to NPU d: flow s * npus + d; of no flows where it has none */
    int64_t labels;
    const char *const *label; /* names of labels, and of tasks; UTF-8 */
    const char *const *task;
    const double *weight;     /* of labels; NULL for 1 */
} fredfw_program;

/* Write a program, as far as there is room; returns how many bytes that takes. Equal programs are equal bytes. */
FREDFW_API int64_t fredfw_program_write(const fredfw_program *program, int64_t room, uint8_t *bytes);
/* Read what was written, all of which is checked; NULL for what was cut off, damaged, or is something else. Its arrays stay
 * until it is freed, which is after the networks that run it. */
FREDFW_API const fredfw_program *fredfw_program_read(int64_t count, const uint8_t *bytes);
FREDFW_API void fredfw_program_free(const fredfw_program *program);
/* A network of its setting and weights, on which nothing has started yet; see fredfw_tasks_start. */
FREDFW_API fredfw_network *fredfw_program_network(const fredfw_program *program);

/* --- rates that the caller knows */

/* Flows that drain, the links that they cross together, whether there are coefficients, and how often flows have come or
 * gone so far. */
FREDFW_API int64_t fredfw_count_flows(const fredfw_network *network, int64_t *counts);

typedef struct fredfw_columns {
    int64_t *offset, *link; /* as in fredfw_routes */
    double *coefficient, *cap;
    int64_t *priority, *label, *name; /* names increase, and are the same for the whole life of a flow */
    double *birth, *size, *left, *latency;
} fredfw_columns;

/* Write what is known of them; columns that are NULL are left out. */
FREDFW_API int64_t fredfw_list_flows(const fredfw_network *network, const fredfw_columns *columns);
/* Give them rates, which hold until flows or links change, or until a moment. */
FREDFW_API int64_t fredfw_assign(fredfw_network *network, int64_t count, const double *rates, double until);

/* --- schedules that run */

enum { FREDFW_COMPRESSED = 0, FREDFW_STEPWISE = 1, FREDFW_BY_RANK = 2, FREDFW_RENDEZVOUS = 3 };

/* Returns the name of a run. Phases stay whole in a group, their repetitions as one volume or one by one; or each rank
 * waits for what it sends and receives itself, and a transfer for its destinations too where it is a rendezvous. `times`
 * is how often all is done, where repetitions are one volume. */
FREDFW_API int64_t fredfw_run_new(fredfw_network *network, const fredfw_lowered *lowered, int64_t label,
                                  int64_t priority, int64_t way, int64_t times);
FREDFW_API int64_t fredfw_run_start(fredfw_network *network, int64_t run);
/* Stop a run; one that is over, or never was, is no error. */
FREDFW_API int64_t fredfw_run_cancel(fredfw_network *network, int64_t run);

#if defined(__cplusplus)
}
#endif
#endif
