/* The hot loops of fredfw's flow table: max-min fair rates, of everything or of the piece that a change disturbs, a heap
 * of finish times, and the steps from moment to moment.
 *
 * fredfw/simulation/core/pure.py does the same in Python, with the same operations on the same doubles in the same order,
 * so that results are the same to the last bit; the build forbids fused operations. All that lasts is in arrays that
 * Python owns and describes in a Table. No function keeps anything between calls. Memory for the work of one call is
 * allocated and freed; a function that gets none returns NO_MEMORY and has changed nothing.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define NO_MEMORY (-2)
#define NO_ROOM (-3)
#define ABI 4

/* Fair shares that differ by less, relative, are the same. */
#define SAME 1e-12
/* Below this share of a link's capacity, what is left of it is rounding. */
#define NOTHING 1e-12
/* A link that carries this share of its capacity is saturated, and a flow this close to the fastest is one of them. */
#define NEARLY (1 - 1e-10)
/* A lower bound is this share of what it would be without rounding, and a link carries too much above its inverse. */
#define CAUTION (1 - 1e-9)
#define CAREFUL (1 - 1e-11)
/* A flow is drained when what remains is below this share of its own volume. */
#define DRAINED 1e-11
/* So is one that ends later by a few roundings of the clock, which may be more for a flow that takes no time beside it. */
#define TICKS 1e-15
/* Links whose levels are higher by this factor are not sorted yet. */
#define AHEAD 1.25
/* The piece that a change disturbs is looked for where fewer than one in so many flows came or went. */
#define FEW 2
/* What a flow has as long as it is not drained. */
#define LEAST 2.2250738585072014e-308

typedef struct {
    /* Counts. */
    int64_t slots;   /* used, also by flows that are gone */
    int64_t active;  /* flows that drain */
    int64_t links;
    int64_t linked;  /* slots below it are in the chains of their links, if they drain */
    int64_t heaped;  /* entries of the heap */
    int64_t loose;   /* links that have lost a flow since rates were known */
    int64_t passes;  /* over flows, of the last solve */
    int64_t touched; /* flows that the last solve looked at */
    int64_t fresh;   /* slots from it on are new since rates were known */
    int64_t gone;    /* flows that have left since */
    int64_t related; /* whether bottlenecks, chains and heap are those of the flows that drain */
    int64_t everything; /* whether all flows have to be solved */
    int64_t pairs;      /* used, like slots */
    int64_t room, pair_room, delivery_room; /* for so many slots, pairs and deliveries */
    int64_t messages;   /* flows that drain and are messages */
    int64_t deliveries; /* of messages that are drained */
    int64_t sequence;   /* of the last event that became known */
    int64_t stepping;   /* whether what is due now belongs to a moment that has been counted */
    int64_t drained;    /* flows that a step has found */
    /* What Python has not counted yet. */
    int64_t events, sent, solves, solved, all_passes, most_passes;
    /* What functions are asked for; an argument of theirs would cost more than all the work of some. */
    int64_t order;         /* place of the first event of the calendar among what is due then */
    int64_t ticket;        /* of the message that is put */
    const struct Way *way; /* that it takes */
    double volume;         /* that it has */
    double until;          /* where a step stops at the latest */
    double due;            /* when the first event of the calendar is */
    /* Times. */
    double now;
    double first_done;     /* when the first flow is drained; NaN where that is not known */
    double first_delivery; /* of a message that is drained */
    /* Of each slot. */
    double *bytes, *remaining, *since, *rate, *finish, *cap;
    int64_t *start;      /* first pair */
    int32_t *length;     /* pairs */
    int32_t *bottleneck; /* link that limits it, -1 for its cap */
    int32_t *place;      /* in the heap, -1 if it is not there */
    int32_t *mark;       /* -1 between calls */
    uint8_t *draining;
    /* Of each pair of a flow and a link. */
    int32_t *link, *owner, *next, *previous;
    double *coefficient; /* NULL where all are 1 */
    /* Of each link. */
    double *capacity;
    double *load; /* bytes per second that linked flows carry, but for rounding */
    int32_t *head, *tail;
    int32_t *resting; /* how many linked flows it is the bottleneck of */
    int32_t *local;   /* -1 between calls */
    uint8_t *is_loose;
    int32_t *loose_links;
    int32_t *heap; /* slots */
    /* Of each slot: the number of a message, 0 for other flows, and the seconds from its last byte's departure to its
     * delivery. */
    int64_t *ticket_of;
    double *latency;
    int32_t *found; /* slots that a step has found drained */
    struct Delivery *delivery; /* a heap */
} Table;

typedef struct Delivery {
    double time;
    int64_t order, ticket;
} Delivery;

/* The links of a message. */
typedef struct Way {
    const int64_t *link;
    int64_t count;
    const double *coefficient; /* NULL where all are 1 */
    double latency;
} Way;

static double weight_of(const Table *t, int64_t pair) { return t->coefficient ? t->coefficient[pair] : 1.0; }

/* --- max-min fair rates of flows that are laid out one after the other */

typedef struct {
    int64_t count, links, pairs;
    int64_t *length; /* pairs of each flow */
    int32_t *link;   /* of each pair; overwritten */
    double *coefficient;
    double *cap, *rate;
    double *left;  /* bytes per second of each link; overwritten */
    double *floor; /* less than that is rounding */
    /* Work. */
    int64_t *flow;
    double *level, *share, *edge, *weight, *taken;
    uint8_t *free_link;
    void *memory;
} Fill;

static int allot(Fill *fill, int64_t count, int64_t links, int64_t pairs, int weighted) {
    size_t doubles = 3 * (size_t)count + 6 * (size_t)links + (weighted ? (size_t)pairs : 0);
    size_t bytes = doubles * 8 + 2 * (size_t)count * 8 + ((size_t)count + (size_t)pairs) * 4 + (size_t)links + 64;
    char *memory = malloc(bytes);
    if (!memory) return 0;
    fill->memory = memory;
#define CARVE(field, type, number) fill->field = (type *)memory, memory += (size_t)(number) * sizeof(type)
    CARVE(cap, double, count);
    CARVE(rate, double, count);
    CARVE(level, double, count);
    CARVE(left, double, links);
    CARVE(floor, double, links);
    CARVE(share, double, links);
    CARVE(edge, double, links);
    CARVE(weight, double, links);
    CARVE(taken, double, links);
    CARVE(coefficient, double, weighted ? pairs : 0);
    if (!weighted) fill->coefficient = NULL;
    CARVE(length, int64_t, count);
    CARVE(flow, int64_t, count);
    CARVE(link, int32_t, pairs);
    CARVE(free_link, uint8_t, links);
#undef CARVE
    fill->count = count, fill->links = links, fill->pairs = pairs;
    return 1;
}

/* Freeze, pass by pass, the flows of links that are the tightest constraint of every flow that crosses them. */
static int64_t fill_up(Fill *f) {
    int64_t count = 0, passes = 0;
    const int weighted = f->coefficient != NULL;
    int32_t *link = f->link;
    double *coefficient = f->coefficient, *weight = f->weight, *taken = f->taken, *share = f->share, *edge = f->edge;
    uint8_t *free_link = f->free_link;
    for (int64_t one = 0; one < f->links; one++) weight[one] = taken[one] = 0.0;
    for (int64_t pair = 0; pair < f->pairs; pair++) weight[link[pair]] += weighted ? coefficient[pair] : 1.0;
    for (int64_t flow = 0; flow < f->count; flow++) {
        f->rate[flow] = f->cap[flow];
        if (f->length[flow]) f->flow[count++] = flow;
    }
    while (count > 0) {
        passes++;
        for (int64_t one = 0; one < f->links; one++) {
            share[one] = weight[one] > 0 ? f->left[one] / weight[one] : INFINITY;
            edge[one] = share[one] * (1 - SAME);
            free_link[one] = 0;
            if (weighted) weight[one] = 0.0;
        }
        int64_t start = 0;
        for (int64_t place = 0; place < count; place++) {
            const int64_t flow = f->flow[place], end = start + f->length[flow];
            double lowest = f->cap[flow];
            for (int64_t pair = start; pair < end; pair++) {
                const double here = share[link[pair]];
                lowest = here < lowest ? here : lowest;
            }
            for (int64_t pair = start; pair < end; pair++) free_link[link[pair]] |= lowest < edge[link[pair]];
            f->level[place] = lowest;
            start = end;
        }
        int64_t kept = 0, free_pair = 0;
        start = 0;
        for (int64_t place = 0; place < count; place++) {
            const int64_t flow = f->flow[place], end = start + f->length[flow];
            const double level = f->level[place];
            int waits = level < f->cap[flow];
            for (int64_t pair = start; pair < end; pair++) waits &= free_link[link[pair]];
            if (waits) {
                f->flow[kept] = flow;
                kept++;
                for (int64_t pair = start; pair < end; pair++, free_pair++) {
                    link[free_pair] = link[pair];
                    if (weighted) { /* added up anew, for the sum is to be the same to the last bit */
                        coefficient[free_pair] = coefficient[pair];
                        weight[link[pair]] += coefficient[pair];
                    }
                }
            } else {
                f->rate[flow] = level;
                for (int64_t pair = start; pair < end; pair++) {
                    taken[link[pair]] += weighted ? level * coefficient[pair] : level;
                    if (!weighted) weight[link[pair]] -= 1.0;
                }
            }
            start = end;
        }
        count = kept;
        for (int64_t one = 0; one < f->links; one++) {
            f->left[one] -= taken[one];
            taken[one] = 0.0;
            if (f->left[one] < f->floor[one]) f->left[one] = 0.0;
        }
    }
    return passes;
}

/* Numbers the links of a fill, from 1, in the order in which flows use them, so that no pass looks at the others. */
typedef struct {
    int32_t *number;
    int32_t used;
} Numbering;

static int begin(Fill *fill, Numbering *links, int64_t count, int64_t all, int64_t pairs, int weighted) {
    links->used = 0;
    links->number = calloc((size_t)all + 1, sizeof(int32_t));
    if (links->number && allot(fill, count, pairs < all ? pairs : all, pairs, weighted)) return 1;
    free(links->number);
    return 0;
}

static void lay_out(Fill *fill, Numbering *links, int64_t pair, int64_t link, const double *capacity,
                    double coefficient) {
    int32_t *number = &links->number[link];
    if (!*number) {
        fill->left[links->used] = capacity[link];
        fill->floor[links->used] = capacity[link] * NOTHING;
        *number = ++links->used;
    }
    fill->link[pair] = *number - 1;
    if (fill->coefficient) fill->coefficient[pair] = coefficient;
}

static int64_t finish(Fill *fill, Numbering *links, double *rates) {
    free(links->number);
    fill->links = links->used;
    const int64_t passes = fill_up(fill);
    for (int64_t flow = 0; flow < fill->count; flow++) rates[flow] = fill->rate[flow];
    free(fill->memory);
    return passes;
}

/* Set the rates of flows none of which shares a link with another, as a single pass does; return whether that is so. Rates
 * are overwritten only then. */
static int fill_apart(int64_t count, int64_t links, const int64_t *offsets, const int64_t *link, const double *capacity,
                      double *rates) {
    uint8_t *used = calloc((size_t)links + 1, 1);
    int apart = used != NULL;
    for (int64_t pair = 0; pair < offsets[count] && apart; pair++) apart = !used[link[pair]]++;
    free(used);
    for (int64_t flow = 0; flow < count && apart; flow++)
        for (int64_t pair = offsets[flow]; pair < offsets[flow + 1]; pair++)
            if (capacity[link[pair]] < rates[flow]) rates[flow] = capacity[link[pair]];
    return apart;
}

/* Set the rates of flows in the form of fredfw.simulation.Incidence, which begin as their caps; return the passes. */
int64_t fredfw_max_min(int64_t count, int64_t links, const int64_t *offsets, const int64_t *link,
                       const double *coefficient, const double *capacity, double *rates) {
    Fill fill;
    Numbering numbering;
    const int64_t pairs = offsets[count];
    if (!coefficient && pairs && fill_apart(count, links, offsets, link, capacity, rates)) return 1;
    if (!begin(&fill, &numbering, count, links, pairs, coefficient != NULL)) return NO_MEMORY;
    for (int64_t flow = 0; flow < count; flow++) {
        fill.length[flow] = offsets[flow + 1] - offsets[flow];
        fill.cap[flow] = rates[flow];
    }
    for (int64_t pair = 0; pair < pairs; pair++)
        lay_out(&fill, &numbering, pair, link[pair], capacity, coefficient ? coefficient[pair] : 1.0);
    return finish(&fill, &numbering, rates);
}

/* --- the heap: the flow that is drained first is at the top, of two at once the one that came first */

static int before(const Table *t, int32_t one, int32_t other) {
    return t->finish[one] < t->finish[other] || (t->finish[one] == t->finish[other] && one < other);
}

static void settle_at(Table *t, int64_t place, int32_t slot) {
    t->heap[place] = slot;
    t->place[slot] = (int32_t)place;
}

static void sink(Table *t, int64_t place, int32_t slot) {
    for (;;) {
        int64_t child = 2 * place + 1;
        if (child >= t->heaped) break;
        if (child + 1 < t->heaped && before(t, t->heap[child + 1], t->heap[child])) child++;
        if (!before(t, t->heap[child], slot)) break;
        settle_at(t, place, t->heap[child]);
        place = child;
    }
    settle_at(t, place, slot);
}

static void sift(Table *t, int64_t place, int32_t slot) {
    while (place > 0) {
        const int64_t parent = (place - 1) / 2;
        if (!before(t, slot, t->heap[parent])) break;
        settle_at(t, place, t->heap[parent]);
        place = parent;
    }
    sink(t, place, slot);
}

static void leave_heap(Table *t, int32_t slot) {
    const int64_t place = t->place[slot];
    t->place[slot] = -1;
    const int32_t last = t->heap[--t->heaped];
    if (last != slot) sift(t, place, last);
}

/* --- the flows of each link, in the order in which they came */

static void join_links(Table *t, int32_t slot) {
    for (int64_t pair = t->start[slot], end = pair + t->length[slot]; pair < end; pair++) {
        const int32_t link = t->link[pair], last = t->tail[link];
        t->load[link] += t->rate[slot] * weight_of(t, pair);
        t->owner[pair] = slot;
        t->next[pair] = -1;
        t->previous[pair] = last;
        if (last < 0)
            t->head[link] = (int32_t)pair;
        else
            t->next[last] = (int32_t)pair;
        t->tail[link] = (int32_t)pair;
    }
}

static void leave_links(Table *t, int32_t slot) {
    if (t->bottleneck[slot] >= 0) t->resting[t->bottleneck[slot]]--;
    for (int64_t pair = t->start[slot], end = pair + t->length[slot]; pair < end; pair++) {
        const int32_t link = t->link[pair], last = t->previous[pair], next = t->next[pair];
        t->load[link] -= t->rate[slot] * weight_of(t, pair);
        if (last < 0)
            t->head[link] = next;
        else
            t->next[last] = next;
        if (next < 0)
            t->tail[link] = last;
        else
            t->previous[next] = last;
        if (!t->is_loose[link]) {
            t->is_loose[link] = 1;
            t->loose_links[t->loose++] = link;
        }
    }
}

static void link_new(Table *t) {
    for (int64_t slot = t->linked; slot < t->slots; slot++)
        if (t->draining[slot]) {
            t->bottleneck[slot] = -1;
            join_links(t, (int32_t)slot);
            sift(t, t->heaped++, (int32_t)slot);
        }
    t->linked = t->slots;
}

/* Make the chains and the heap anew. */
void fredfw_index(Table *t) {
    for (int64_t link = 0; link < t->links; link++) {
        t->head[link] = t->tail[link] = t->local[link] = -1;
        t->load[link] = 0.0;
    }
    t->heaped = 0;
    for (int64_t slot = 0; slot < t->slots; slot++) {
        t->place[slot] = -1;
        if (!t->draining[slot]) continue;
        join_links(t, (int32_t)slot);
        t->heap[t->heaped] = (int32_t)slot;
        t->place[slot] = (int32_t)t->heaped++;
    }
    for (int64_t place = t->heaped / 2 - 1; place >= 0; place--) sink(t, place, t->heap[place]);
    t->linked = t->slots;
}

/* Find the bottleneck of each flow from the rates, with the chains and the heap. */
static int64_t relate(Table *t) {
    double *fastest = calloc((size_t)t->links + 1, sizeof(double));
    if (!fastest) return NO_MEMORY;
    fredfw_index(t);
    for (int64_t link = 0; link < t->links; link++) t->resting[link] = 0;
    for (int64_t slot = 0; slot < t->slots; slot++)
        if (t->draining[slot])
            for (int64_t pair = t->start[slot], end = pair + t->length[slot]; pair < end; pair++)
                if (t->rate[slot] > fastest[t->link[pair]]) fastest[t->link[pair]] = t->rate[slot];
    for (int64_t slot = 0; slot < t->slots; slot++) {
        const double rate = t->rate[slot];
        t->bottleneck[slot] = -1;
        if (!t->draining[slot] || rate >= t->cap[slot]) continue;
        for (int64_t pair = t->start[slot], end = pair + t->length[slot]; pair < end; pair++) {
            const int32_t link = t->link[pair];
            if (t->load[link] >= t->capacity[link] * NEARLY && rate >= fastest[link] * NEARLY) {
                t->bottleneck[slot] = link;
                t->resting[link]++;
                break;
            }
        }
    }
    free(fastest);
    return 0;
}

/* --- rates */

static void set_rate(Table *t, int32_t slot, double rate, double now) {
    const double old = t->rate[slot];
    double left = t->remaining[slot];
    if (old > 0 && t->since[slot] < now) {
        left -= old * (now - t->since[slot]);
        if (!(left > LEAST)) left = LEAST;
    }
    t->remaining[slot] = left;
    t->since[slot] = now;
    t->rate[slot] = rate;
    t->finish[slot] = rate > 0 ? now + left / rate : INFINITY;
}

static void clear_changes(Table *t) {
    for (int64_t one = 0; one < t->loose; one++) t->is_loose[t->loose_links[one]] = 0;
    t->loose = 0;
}

static double first_of_all(const Table *t) {
    double first = INFINITY;
    for (int64_t slot = 0; slot < t->slots; slot++)
        if (t->draining[slot] && t->finish[slot] < first) first = t->finish[slot];
    return first;
}

static void settled(Table *t) {
    t->everything = t->gone = 0;
    t->fresh = t->slots;
}

/* Give all flows the rates, one for each that drains, in order; return when the first is drained. */
double fredfw_assign(Table *t, double now, const double *rates) {
    for (int64_t slot = 0; slot < t->slots; slot++) {
        if (!t->draining[slot]) continue;
        const double rate = *rates++;
        if (rate != t->rate[slot]) set_rate(t, (int32_t)slot, rate, now);
    }
    clear_changes(t);
    settled(t);
    t->related = 0;
    return first_of_all(t);
}

/* Solve all flows; write the rate of each that drains, in order, and return the passes. */
int64_t fredfw_solve(Table *t, double *rates) {
    Fill fill;
    Numbering numbering;
    int64_t pairs = 0, count = 0, pair = 0;
    for (int64_t slot = 0; slot < t->slots; slot++)
        if (t->draining[slot]) pairs += t->length[slot];
    if (!begin(&fill, &numbering, t->active, t->links, pairs, t->coefficient != NULL)) return NO_MEMORY;
    for (int64_t slot = 0; slot < t->slots; slot++) {
        if (!t->draining[slot]) continue;
        fill.length[count] = t->length[slot];
        fill.cap[count++] = t->cap[slot];
        for (int64_t from = t->start[slot], end = from + t->length[slot]; from < end; from++)
            lay_out(&fill, &numbering, pair++, t->link[from], t->capacity, weight_of(t, from));
    }
    return finish(&fill, &numbering, rates);
}

/* --- the piece that a change disturbs
 *
 * Levels are found in rising order, so that what has been found stays: of the links that open flows cross, the one with
 * the lowest level is saturated next, and its open flows stop there. Resting flows that are faster give way to that
 * level. A flow that slows down leaves its other links something, so that flows that rest at their levels, which are
 * higher, open too. */

typedef struct {
    double key;   /* a lower bound of the level of a link, or the cap of a flow */
    int32_t what; /* a link, or ~slot of a flow */
} Due;

typedef struct {
    int32_t slot, neck; /* OPEN while the rate is not known */
    double rate;
} Member;

typedef struct {
    int32_t link, opened; /* and how many open flows cross it */
    double weight, used;  /* what the open ones count together, and what all others carry, or more, but for rounding */
    double key;           /* of its entry that counts, negative where none does */
    uint8_t loosened;     /* whether flows at its level have opened */
    uint8_t raised;       /* whether a flow is faster than before */
    uint8_t lower;        /* whether its bound may be lower than the key, because flows have opened */
    uint8_t exact;        /* whether the key is its level, for nothing has changed on it since that was found */
} Crossed;

typedef struct {
    Member *member;
    Crossed *crossed;
    Due *due, *far;   /* entries before the horizon, as a heap, and those after it, which may never be looked at */
    int32_t *lower;   /* places of links whose bound may be lower than the key */
    int32_t *slowed;  /* slots of flows whose links carry less than before, for they are slower */
    int64_t members, crosses, dues, fars, lowers, slows, room[6];
    int64_t saturated, open; /* members whose rate is not known */
    double horizon;
    double level; /* that has been reached */
    int failed;   /* for there was no memory */
} Piece;

#define OPEN (-2)

/* Return an array with room for one more: the same, or a longer one. Where there is no memory, the piece has failed. */
static void *with_room(Piece *p, int which, void *array, int64_t count, size_t size) {
    if (count < p->room[which]) return array;
    const int64_t room = 2 * count + 64;
    void *longer = realloc(array, (size_t)room * size);
    if (!longer) {
        p->failed = 1;
        return array;
    }
    p->room[which] = room;
    return longer;
}

static int earlier(Due one, Due other) {
    return (one.key < other.key) | ((one.key == other.key) & (one.what < other.what));
}

static void await(Piece *p, double key, int32_t what) {
    const Due one = {key, what};
    if (key > p->horizon) {
        p->far = with_room(p, 4, p->far, p->fars, sizeof(Due));
        if (!p->failed) p->far[p->fars++] = one;
        return;
    }
    p->due = with_room(p, 0, p->due, p->dues, sizeof(Due));
    if (p->failed) return;
    int64_t place = p->dues++;
    while (place > 0 && earlier(one, p->due[(place - 1) / 2])) {
        p->due[place] = p->due[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    p->due[place] = one;
}

/* Put an entry in place of the first. */
static void replace_first(Piece *p, Due one) {
    int64_t place = 0;
    for (;;) {
        int64_t child = 2 * place + 1;
        if (child >= p->dues) break;
        if (child + 1 < p->dues) child += earlier(p->due[child + 1], p->due[child]);
        if (!earlier(p->due[child], one)) break;
        p->due[place] = p->due[child];
        place = child;
    }
    p->due[place] = one;
}

static void drop_first(Piece *p) {
    p->dues--;
    if (p->dues) replace_first(p, p->due[p->dues]);
}

/* Return whether none but the first comes before an entry. */
static int is_next(const Piece *p, Due one) {
    return !(p->dues > 1 && earlier(p->due[1], one)) && !(p->dues > 2 && earlier(p->due[2], one));
}

static int32_t crossing(Table *t, Piece *p, int32_t link) {
    if (t->local[link] < 0) {
        p->crossed = with_room(p, 1, p->crossed, p->crosses, sizeof(Crossed));
        if (p->failed) return -1;
        const Crossed fresh = {link, 0, 0.0, t->load[link], -1.0, 0, 0, 0, 0};
        t->local[link] = (int32_t)p->crosses;
        p->crossed[p->crosses++] = fresh;
    }
    return t->local[link];
}

static int32_t join_piece(Table *t, Piece *p, int32_t slot) {
    p->member = with_room(p, 2, p->member, p->members, sizeof(Member));
    if (p->failed) return -1;
    const Member fresh = {slot, OPEN, 0.0};
    t->mark[slot] = (int32_t)p->members;
    p->member[p->members] = fresh;
    return (int32_t)p->members++;
}

/* Return a lower bound of the level of a link with open flows: what the others have, they have at most. */
static double bound_of(const Table *t, const Piece *p, const Crossed *crossed) {
    const double bound = (t->capacity[crossed->link] * CAUTION - crossed->used) / crossed->weight;
    return bound > p->level ? bound : p->level;
}

/* Have the rate of a flow found. */
static void open_flow(Table *t, Piece *p, int32_t slot) {
    const int32_t mine = join_piece(t, p, slot);
    if (mine < 0) return;
    if (!t->length[slot]) {
        p->member[mine].rate = t->cap[slot], p->member[mine].neck = -1;
        return;
    }
    p->open++;
    if (t->cap[slot] < INFINITY) await(p, t->cap[slot], ~slot);
    for (int64_t pair = t->start[slot], end = pair + t->length[slot]; pair < end; pair++) {
        const int32_t place = crossing(t, p, t->link[pair]);
        if (place < 0) return;
        Crossed *crossed = &p->crossed[place];
        const double weight = weight_of(t, pair);
        crossed->opened++, crossed->weight += weight, crossed->used -= t->rate[slot] * weight;
        crossed->exact = 0;
        if (!crossed->lower) {
            p->lower = with_room(p, 3, p->lower, p->lowers, sizeof(int32_t));
            if (p->failed) return;
            crossed->lower = 1;
            p->lower[p->lowers++] = place;
        }
    }
}

/* Await the levels of links on which flows have opened. */
static void await_lower(const Table *t, Piece *p) {
    for (int64_t one = 0; one < p->lowers; one++) {
        Crossed *crossed = &p->crossed[p->lower[one]];
        crossed->lower = 0;
        if (!crossed->opened) continue;
        const double bound = bound_of(t, p, crossed);
        if (crossed->key < 0 || bound < crossed->key) {
            crossed->key = bound;
            await(p, bound, crossed->link);
        }
    }
    p->lowers = 0;
}

/* Open the flows that rest at the level of a link that carries less than before. */
static void loosen(Table *t, Piece *p, int32_t link) {
    if (!t->resting[link]) return;
    const int32_t place = crossing(t, p, link);
    if (place < 0 || p->crossed[place].loosened) return;
    p->crossed[place].loosened = 1;
    for (int32_t pair = t->head[link]; pair >= 0 && !p->failed; pair = t->next[pair]) {
        const int32_t slot = t->owner[pair];
        if (t->bottleneck[slot] == link && t->mark[slot] < 0) open_flow(t, p, slot);
    }
}

/* Let a flow of the piece have the rate that was found. */
static void stop_flow(Table *t, Piece *p, int32_t mine, double rate, int32_t neck, int open) {
    const int32_t slot = p->member[mine].slot;
    const double old = t->rate[slot];
    const int64_t start = t->start[slot], end = start + t->length[slot];
    p->member[mine].rate = rate, p->member[mine].neck = neck;
    p->open -= open;
    for (int64_t pair = start; pair < end; pair++) {
        const int32_t place = t->local[t->link[pair]];
        if (place < 0) continue; /* it is known where flows are open */
        Crossed *crossed = &p->crossed[place];
        const double weight = weight_of(t, pair);
        crossed->used += (open ? rate : rate - old) * weight;
        if (open) crossed->opened--, crossed->weight -= weight;
        crossed->raised |= rate > old;
        crossed->exact = 0;
    }
    if (!(old * NEARLY > rate)) return;
    p->slowed = with_room(p, 5, p->slowed, p->slows, sizeof(int32_t));
    if (!p->failed) p->slowed[p->slows++] = slot;
}

/* Loosen the links of flows that have slowed down, but for the one that has slowed them. */
static void loosen_slowed(Table *t, Piece *p, int32_t neck) {
    for (int64_t one = 0; one < p->slows; one++) {
        const int64_t start = t->start[p->slowed[one]], end = start + t->length[p->slowed[one]];
        for (int64_t pair = start; pair < end && !p->failed; pair++)
            if (t->link[pair] != neck) loosen(t, p, t->link[pair]);
    }
    p->slows = 0;
}

static int carries_too_much(const Table *t, const Crossed *crossed) {
    return crossed->raised && crossed->used > t->capacity[crossed->link] * (2 - CAREFUL);
}

/* Return whether something may stop at an entry; one where nothing does counts no more. */
static int still_counts(const Table *t, Piece *p, Due due) {
    if (due.what < 0) return p->member[t->mark[~due.what]].neck == OPEN;
    Crossed *crossed = &p->crossed[t->local[due.what]];
    if (crossed->key != due.key) return 0;
    if (crossed->opened || carries_too_much(t, crossed)) return 1;
    crossed->key = -1.0;
    return 0;
}

/* Have the first two entries of all in the heap. Where no flow is open, those that do not count are dropped. */
static void look_ahead(const Table *t, Piece *p) {
    if (!p->open) {
        p->horizon = -1.0;
        while (p->dues && !p->failed) p->dues--, await(p, p->due[p->dues].key, p->due[p->dues].what);
    }
    while (p->dues < 2 && p->fars && !p->failed) {
        double first = INFINITY;
        int64_t kept = 0;
        for (int64_t one = 0; one < p->fars; one++) {
            const Due due = p->far[one];
            if (!still_counts(t, p, due)) continue;
            if (due.key < first) first = due.key;
            p->far[kept++] = due;
        }
        p->horizon = first * AHEAD;
        p->fars = 0;
        for (int64_t one = 0; one < kept; one++) await(p, p->far[one].key, p->far[one].what);
    }
}

/* Return the level at which a link is saturated, which is at least `level`: flows on it get that, or less. It is infinite
 * where no flow is that fast. */
static double level_of(const Table *t, const Piece *p, int32_t link, double level) {
    for (;;) {
        double others = 0.0, sharing = 0.0, slowest = INFINITY;
        for (int32_t pair = t->head[link]; pair >= 0; pair = t->next[pair]) {
            const int32_t slot = t->owner[pair], mark = t->mark[slot];
            const int open = mark >= 0 && p->member[mark].neck == OPEN;
            const double rate = mark >= 0 ? p->member[mark].rate : t->rate[slot], weight = weight_of(t, pair);
            const int gives_way = mark < 0 && rate * NEARLY > level;
            if (gives_way && rate < slowest) slowest = rate;
            if (open || gives_way)
                sharing += weight;
            else
                others += rate * weight;
        }
        if (sharing == 0) return INFINITY;
        double left = t->capacity[link] - others;
        if (left < t->capacity[link] * NOTHING) left = 0.0;
        const double higher = left / sharing;
        if (slowest * NEARLY > higher || !(higher * NEARLY > level)) return higher;
        level = higher;
    }
}

/* Stop the flows of a link at its level. */
static void saturate(Table *t, Piece *p, int32_t link, double level) {
    p->saturated++;
    for (int32_t pair = t->head[link]; pair >= 0 && !p->failed; pair = t->next[pair]) {
        const int32_t slot = t->owner[pair], mark = t->mark[slot];
        if (mark >= 0) {
            if (p->member[mark].neck == OPEN) stop_flow(t, p, mark, level, link, 1);
        } else if (t->rate[slot] * NEARLY > level) {
            const int32_t mine = join_piece(t, p, slot);
            if (mine >= 0) stop_flow(t, p, mine, level, link, 0);
        }
    }
    loosen_slowed(t, p, link);
}

/* Solve again what a change disturbs: the new slots, and what the loose links limited. Return how many flows that were.
 */
static int64_t repair(Table *t, double now) {
    Piece p = {.horizon = -1.0};
    link_new(t);
    for (int64_t slot = t->fresh; slot < t->slots && !p.failed; slot++)
        if (t->draining[slot]) open_flow(t, &p, (int32_t)slot);
    for (int64_t one = 0; one < t->loose && !p.failed; one++) loosen(t, &p, t->loose_links[one]);
    while (!p.failed) {
        await_lower(t, &p);
        look_ahead(t, &p);
        if (p.failed || !p.dues) break;
        const Due due = p.due[0];
        if (!still_counts(t, &p, due)) {
            drop_first(&p);
            continue;
        }
        if (due.what < 0) {
            drop_first(&p);
            p.level = due.key;
            stop_flow(t, &p, t->mark[~due.what], due.key, -1, 1);
            loosen_slowed(t, &p, -1);
            continue;
        }
        Crossed *crossed = &p.crossed[t->local[due.what]];
        double level = due.key;
        if (!crossed->exact) {
            level = crossed->opened ? bound_of(t, &p, crossed) : p.level;
            if (is_next(&p, (Due){level, due.what})) {
                level = level_of(t, &p, crossed->link, level);
                crossed->exact = 1;
            }
        }
        const Due again = {level, due.what};
        const int comes_later = level < INFINITY && !is_next(&p, again);
        crossed->key = comes_later ? level : -1.0;
        if (comes_later && level <= p.horizon) {
            replace_first(&p, again);
            continue;
        }
        drop_first(&p);
        if (comes_later)
            await(&p, level, due.what);
        else if (level < INFINITY) { /* else nothing stops here */
            p.level = level;
            saturate(t, &p, crossed->link, level);
        }
    }
    for (int64_t one = 0; one < p.crosses; one++) t->local[p.crossed[one].link] = -1;
    for (int64_t one = 0; one < p.members; one++) {
        const Member *member = &p.member[one];
        t->mark[member->slot] = -1;
        if (p.failed) continue;
        int32_t *neck = &t->bottleneck[member->slot];
        if (*neck >= 0) t->resting[*neck]--;
        if (member->neck >= 0) t->resting[member->neck]++;
        *neck = member->neck;
        if (member->rate != t->rate[member->slot]) {
            const double more = member->rate - t->rate[member->slot];
            for (int64_t pair = t->start[member->slot], end = pair + t->length[member->slot]; pair < end; pair++)
                t->load[t->link[pair]] += more * weight_of(t, pair);
            set_rate(t, member->slot, member->rate, now);
            sift(t, t->place[member->slot], member->slot);
        }
    }
    if (!p.failed) clear_changes(t);
    t->touched = p.members, t->passes = p.saturated;
    free(p.member);
    free(p.crossed);
    free(p.due);
    free(p.far);
    free(p.slowed);
    free(p.lower);
    return p.failed ? NO_MEMORY : p.members;
}

static int few(const Table *t, int64_t changed) { return FEW * changed <= t->active; }

/* Solve again what has changed since rates were known, and what that disturbs. Return when the first flow is drained; NaN
 * where so much has changed that all flows are to be solved, NO_MEMORY where there is none. */
double fredfw_settle(Table *t, double now) {
    if (t->everything || !few(t, t->slots - t->fresh + t->gone)) return NAN;
    if (!t->related && relate(t) < 0) return NO_MEMORY;
    t->related = 1;
    if (repair(t, now) < 0) return NO_MEMORY;
    settled(t);
    return t->heaped ? t->finish[t->heap[0]] : INFINITY;
}

/* --- flows that end */

static int by_number(const void *one, const void *other) {
    const int32_t a = *(const int32_t *)one, b = *(const int32_t *)other;
    return (a > b) - (a < b);
}

static int is_drained(const Table *t, int32_t slot, double time) {
    const double late = t->finish[slot] - time;
    return late <= TICKS * time || late * t->rate[slot] <= DRAINED * t->bytes[slot];
}

/* Find the flows that are drained at `time`, when the first is; write their slots in order and return how many. They
 * are not in the heap any more, and for the rest still there. */
static int64_t find_drained(Table *t, double time, int32_t *drained) {
    int64_t count = 0;
    if (!t->related) {
        for (int64_t slot = 0; slot < t->slots; slot++)
            if (t->draining[slot] && is_drained(t, (int32_t)slot, time)) drained[count++] = (int32_t)slot;
        return count;
    }
    while (t->heaped && is_drained(t, t->heap[0], time)) {
        drained[count++] = t->heap[0];
        leave_heap(t, t->heap[0]);
    }
    if (count > 1) qsort(drained, (size_t)count, sizeof(int32_t), by_number);
    return count;
}

/* Take the flows of `slots`, in order, out. */
int64_t fredfw_drop(Table *t, const int32_t *slots, int64_t count) {
    if (count && slots[0] < t->fresh) {
        t->gone += count;
        if (!t->related && !t->everything) {
            /* Bottlenecks are known by the rates, as long as all flows are there. */
            if (!few(t, t->gone))
                t->everything = 1;
            else if (relate(t) < 0)
                return NO_MEMORY;
            else
                t->related = 1;
        }
    }
    for (int64_t one = 0; one < count; one++) {
        const int32_t slot = slots[one];
        t->draining[slot] = 0;
        t->messages -= t->ticket_of[slot] != 0;
        if (t->related && slot < t->linked) {
            if (t->place[slot] >= 0) leave_heap(t, slot);
            leave_links(t, slot);
        }
    }
    t->active -= count;
    return count;
}

/* Take out the flows that are drained at `time`, when the first is; write their slots in order and return how many. */
int64_t fredfw_take(Table *t, double time, int32_t *drained) {
    return fredfw_drop(t, drained, find_drained(t, time, drained));
}

/* --- messages: single flows of which no more is of interest than when they are delivered */

/* Put a message of `volume` bytes and number `ticket` on the links of `way`; return its slot, NO_ROOM where there is
 * none. */
int64_t fredfw_put(Table *t) {
    const Way *way = t->way;
    if (!t->active) t->slots = t->linked = t->pairs = t->fresh = 0;
    const int64_t slot = t->slots, first = t->pairs;
    if (slot == t->room || first + way->count > t->pair_room || t->deliveries + t->messages >= t->delivery_room ||
        (way->coefficient && !t->coefficient))
        return NO_ROOM;
    t->bytes[slot] = t->remaining[slot] = t->volume;
    t->since[slot] = t->now;
    t->rate[slot] = 0.0;
    t->finish[slot] = t->cap[slot] = INFINITY;
    t->start[slot] = first;
    t->length[slot] = (int32_t)way->count;
    t->draining[slot] = 1;
    t->ticket_of[slot] = t->ticket;
    t->latency[slot] = way->latency;
    for (int64_t one = 0; one < way->count; one++) {
        t->link[first + one] = (int32_t)way->link[one];
        if (t->coefficient) t->coefficient[first + one] = way->coefficient ? way->coefficient[one] : 1.0;
    }
    t->slots++, t->active++, t->messages++, t->sent++;
    t->pairs += way->count;
    t->first_done = NAN;
    return slot;
}

static int sooner(const Delivery *one, const Delivery *other) {
    return one->time < other->time || (one->time == other->time && one->order < other->order);
}

/* Have the message of a slot, which is drained now, delivered. */
void fredfw_deliver(Table *t, int64_t slot, int64_t order) {
    const Delivery one = {t->now + t->latency[slot], order, t->ticket_of[slot]};
    int64_t place = t->deliveries++;
    while (place > 0 && sooner(&one, &t->delivery[(place - 1) / 2])) {
        t->delivery[place] = t->delivery[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    t->delivery[place] = one;
    t->first_delivery = t->delivery->time;
}

static void drop_delivery(Table *t) {
    const Delivery last = t->delivery[--t->deliveries];
    int64_t place = 0;
    for (;;) {
        int64_t child = 2 * place + 1;
        if (child >= t->deliveries) break;
        if (child + 1 < t->deliveries) child += sooner(&t->delivery[child + 1], &t->delivery[child]);
        if (!sooner(&t->delivery[child], &last)) break;
        t->delivery[place] = t->delivery[child];
        place = child;
    }
    t->delivery[place] = last;
    t->first_delivery = t->deliveries ? t->delivery->time : INFINITY;
}

/* --- from moment to moment */

/* What a step has come to, where it has not delivered a message: nothing is due, the first event of the calendar is,
 * flows are drained of which not all are messages, or rates have to be solved. */
enum { NOTHING_DUE = 0, CALENDAR = -4, FLOWS_DRAINED = -5, RATES_UNKNOWN = -6, GOES_ON = 1 };

/* Have rates and the end of the first flow known. */
static int64_t know_first(Table *t) {
    if (!isnan(t->first_done)) return GOES_ON;
    if (!t->active) {
        t->first_done = fredfw_assign(t, t->now, NULL);
        return GOES_ON;
    }
    const double first = fredfw_settle(t, t->now);
    if (isnan(first)) return RATES_UNKNOWN;
    if (first == NO_MEMORY) return NO_MEMORY;
    t->first_done = first;
    t->solves++;
    t->solved += t->touched, t->all_passes += t->passes;
    if (t->passes > t->most_passes) t->most_passes = t->passes;
    return GOES_ON;
}

/* Take out what is drained now, if that is messages alone. */
static int64_t take_messages(Table *t) {
    t->drained = find_drained(t, t->now, t->found);
    for (int64_t one = 0; one < t->drained; one++)
        if (!t->ticket_of[t->found[one]]) return FLOWS_DRAINED;
    if (fredfw_drop(t, t->found, t->drained) < 0) return NO_MEMORY;
    for (int64_t one = 0; one < t->drained; one++) fredfw_deliver(t, t->found[one], ++t->sequence);
    t->first_done = NAN;
    return GOES_ON;
}

/* Go on, at most to `until`, until there is something to do in Python; return what, or the number of the message that is
 * delivered. */
int64_t fredfw_step(Table *t) {
    const Delivery calendar = {t->due, t->order, 0};
    for (;;) {
        const int delivers = t->deliveries && sooner(t->delivery, &calendar);
        const double due = delivers ? t->first_delivery : t->due;
        if (t->stepping && due <= t->now) {
            if (!delivers) return CALENDAR;
            const int64_t ticket = t->delivery->ticket;
            drop_delivery(t);
            return ticket;
        }
        int64_t what = GOES_ON;
        double moment = t->now;
        t->stepping = 0;
        if (due > moment) {
            what = know_first(t);
            if (what != GOES_ON) return what;
            moment = due < t->first_done ? due : t->first_done;
        }
        if (!(moment <= t->until) || moment == INFINITY) return NOTHING_DUE;
        t->events++;
        t->now = moment;
        t->stepping = 1;
        if (moment >= t->first_done) what = take_messages(t);
        if (what != GOES_ON) return what;
    }
}

int64_t fredfw_abi(void) { return ABI; }
