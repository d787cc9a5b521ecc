// Runs one case in SimGrid (3.32) and prints when each of its groups ends, in seconds, one a line.
//
//     simgrid FILE barrier|messages|ranks
//
// A case, in plain text, separated by white space:
//
//     NODES
//     LINKS   and for each link: bandwidth in B/s, latency in s
//     ROUTES  and for each route: source node, destination node, number of links, links
//     GROUPS  and for each group: start in s, number of phases;
//             for each phase: repetitions, number of flows; for each flow: route, bytes
//
// A step is one repetition of one phase. Parties go from step to step: what a party sends starts when it enters a step,
// and it enters the next one when all that it sends and receives in this one has arrived. With "barrier" a group is one
// party that sends everything, with "messages" every node of a group is a party.
//
// With "ranks" every node is a party too, but it does not wait until what it sends has arrived: it enters the next step
// when its sends have left and its receives have arrived. SimGrid lets a message wait for its latency before it takes
// any bandwidth; here it takes bandwidth at once, so links have no latency and a timer delays the arrival instead.
//
// Made to be fast: no actors, flows start in the callback of the completion that they wait for, routes are kept for the
// pairs that have one. With -DTUNED also by what SimGrid does not do by default, or not at all.

#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

#ifdef TUNED
// SimGrid 3.32 keeps communications between hosts in a list, to cancel them if a host fails, and searches all of it when
// one ends. This takes the place of the library's function that puts them there; nothing else depends on it.
namespace simgrid::kernel::activity {
class CommImpl {
public:
  CommImpl& detach();
};
CommImpl& CommImpl::detach()
{
  return *this;
}
} // namespace simgrid::kernel::activity
#endif

struct Party;

struct Flow {
  sg4::Host* source;
  sg4::Host* destination;
  uint64_t bytes;
  size_t phase;
  Party* sender;
  Party* receiver;
  double latency; // that a timer waits for
  size_t done = 0; // repetitions that have arrived
  sg4::CommPtr comm;
};

struct Group {
  double start;
  std::vector<size_t> repeats; // of each phase
  std::vector<std::vector<Flow>> flows;
  std::map<int, Party> parties;
  size_t busy = 0; // parties that are not through
  double end = -1;
};

struct Party {
  Group* group;
  std::vector<std::vector<Flow*>> sends; // of each phase
  std::vector<std::vector<Flow*>> awaits;
  size_t phase = 0;
  size_t repetition = 0;
  size_t pending = 0; // flows of this step that have not arrived, or not left
};

static bool ranks = false;

static void send(Flow& flow)
{
  flow.comm = sg4::Comm::sendto_init(flow.source, flow.destination);
  flow.comm->set_payload_size(flow.bytes);
  flow.comm->set_data(&flow);
  flow.comm->start();
}

static void enter(Party& party)
{
  Group& group = *party.group;
  while (party.phase < group.repeats.size()) {
    if (party.repetition == group.repeats[party.phase]) {
      party.phase++;
      party.repetition = 0;
      continue;
    }
    party.pending = ranks ? party.sends[party.phase].size() : 0;
    for (const Flow* flow : party.awaits[party.phase])
      party.pending += flow->done <= party.repetition; // others may be ahead
    for (Flow* flow : party.sends[party.phase])
      send(*flow);
    if (party.pending > 0)
      return;
    party.repetition++;
  }
  if (--group.busy == 0)
    group.end = sg4::Engine::get_clock();
}

static void over(Party& party)
{
  if (--party.pending == 0) {
    party.repetition++;
    enter(party);
  }
}

static void arrived(Flow& flow, Party& party)
{
  if (party.phase == flow.phase && party.repetition + 1 == flow.done)
    over(party);
}

static void deliver(Flow& flow)
{
  flow.done++;
  arrived(flow, *flow.receiver);
  if (not ranks && flow.sender != flow.receiver)
    arrived(flow, *flow.sender);
}

static void completed(const sg4::Activity& activity)
{
  static sg4::CommPtr last; // SimGrid is not done with it when it calls us
  Flow& flow = *activity.get_data<Flow>();
  last       = std::move(flow.comm);
  if (flow.latency > 0)
    simgrid::kernel::timer::Timer::set(sg4::Engine::get_clock() + flow.latency, [&flow] { deliver(flow); });
  else
    deliver(flow);
  if (ranks)
    over(*flow.sender);
}

static void start(Group& group)
{
  group.busy = group.parties.size();
  for (auto& [name, party] : group.parties)
    enter(party);
}

static Party& party_of(Group& group, int name)
{
  Party& party = group.parties[name];
  party.group  = &group;
  party.sends.resize(group.repeats.size());
  party.awaits.resize(group.repeats.size());
  return party;
}

int main(int argc, char** argv)
{
  sg4::Engine engine(&argc, argv);
  for (const char* option : {
           "network/model:CM02", "network/bandwidth-factor:1", "network/latency-factor:1",
           "network/weight-S:0",     // shares do not depend on bandwidths
           "network/TCP-gamma:0",    // no limit by a TCP window
           "network/crosstraffic:0", // no acknowledgements on the way back
#ifdef TUNED
           "network/optim:Full", // all flows at each event; faster than Lazy here
#endif
           "surf/precision:1e-12",   // s; what ends closer together is one event
           "maxmin/precision:1e-9",  // of a link's bandwidth; less is nothing
       })
    sg4::Engine::set_config(option);
  const bool barrier = std::string(argv[2]) == "barrier";
  ranks              = std::string(argv[2]) == "ranks";

  std::ifstream file(argv[1]);
  size_t count;
  file >> count;
  auto* zone = sg4::create_empty_zone("zone");
  std::vector<sg4::Host*> hosts;
  for (size_t node = 0; node < count; node++)
    hosts.push_back(zone->create_host(std::to_string(node), 1.0));
  file >> count;
  std::vector<const sg4::Link*> links;
  std::vector<double> latencies(count);
  for (size_t link = 0; link < count; link++) {
    double bandwidth;
    file >> bandwidth >> latencies[link];
    auto* one = zone->create_link("l" + std::to_string(link), bandwidth);
    links.push_back(one->set_latency(ranks ? 0 : latencies[link])->seal());
  }
  file >> count;
  struct Route {
    int source, destination;
    double latency = 0;
  };
  std::vector<Route> routes(count);
  for (auto& [source, destination, latency] : routes) {
    file >> source >> destination >> count;
    std::vector<sg4::LinkInRoute> path;
    for (size_t hop = 0, link; hop < count; hop++) {
      file >> link;
      path.emplace_back(links[link]);
      latency += ranks ? latencies[link] : 0;
    }
    zone->add_bypass_route(hosts[source]->get_netpoint(), hosts[destination]->get_netpoint(), nullptr, nullptr, path);
  }
  zone->seal();

  file >> count;
  std::vector<Group> groups(count);
  for (auto& group : groups) {
    file >> group.start >> count;
    group.repeats.resize(count);
    group.flows.resize(count);
    for (size_t phase = 0; phase < group.repeats.size(); phase++) {
      file >> group.repeats[phase] >> count;
      group.flows[phase].resize(count);
      for (auto& flow : group.flows[phase]) {
        size_t route;
        file >> route >> flow.bytes;
        const auto [source, destination, latency] = routes[route];
        flow.source                               = hosts[source];
        flow.destination                          = hosts[destination];
        flow.phase                                = phase;
        flow.latency                              = latency;
        flow.sender                               = &party_of(group, barrier ? 0 : source);
        flow.receiver                             = &party_of(group, barrier ? 0 : destination);
        flow.sender->sends[phase].push_back(&flow);
        if (not ranks)
          flow.sender->awaits[phase].push_back(&flow);
        if (flow.receiver != flow.sender)
          flow.receiver->awaits[phase].push_back(&flow);
      }
    }
  }
  if (!file) {
    std::fprintf(stderr, "%s is no case\n", argv[1]);
    return EXIT_FAILURE;
  }

  sg4::Activity::on_completion_cb(completed);
  for (auto& group : groups)
    if (group.start > 0)
      simgrid::kernel::timer::Timer::set(group.start, [&group] { start(group); });
    else
      start(group);
  engine.run();
  for (const auto& group : groups)
    std::printf("%.17g\n", group.end);
  return EXIT_SUCCESS;
}
