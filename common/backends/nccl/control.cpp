#include "common/backends/nccl/control.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <random>

#include "common/error.hpp"
#include "common/support/text/fnv.hpp"

namespace lockstep::nccl {

namespace {

using Clock = std::chrono::steady_clock;

/// A process's introduction over the bootstrap: "HOST TOKEN PORT ADDRESS ADDRESS …".
struct Card {
  std::string host;
  std::uint64_t token = 0;
  int port = 0;
  std::vector<std::string> addresses;
};

std::string write(const Card& card) {
  return fmt::format("{} {} {} {}", card.host, card.token, card.port, fmt::join(card.addresses, " "));
}

Card parse(const std::string& text) {
  Card card;
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  card.host = words.at(0);
  card.token = std::stoull(words.at(1));
  card.port = std::stoi(words.at(2));
  card.addresses.assign(words.begin() + 3, words.end());
  return card;
}

/// First message of a caller: proves that it belongs to this job, and gives its rank.
struct Greeting {
  std::uint64_t token = 0;
  std::int32_t rank = -1;
};

}  // namespace

struct Control::Frame {
  enum class Kind : std::uint32_t { message, goodbye, end };
  Kind kind = Kind::message;
  Label label;
  std::uint64_t bytes = 0;
};

Control::Control(Bootstrap& bootstrap, double timeout_seconds, Alarms alarms)
    : rank_(bootstrap.rank()), alarms_(std::move(alarms)) {
  for (int rank = 0; rank < bootstrap.size(); ++rank) peers_.push_back(std::make_unique<Peer>());
  if (size() > 1) connect_all(bootstrap, timeout_seconds);
  for (int rank = 0; rank < size(); ++rank)
    if (rank != rank_) peers_[rank]->reader = std::thread([this, rank] { read_from(rank); });
}

void Control::connect_all(Bootstrap& bootstrap, double timeout_seconds) {
  const Socket listening = listen_at(0);
  std::random_device dice;
  const Card mine{.host = host_name(),
                  .token = static_cast<std::uint64_t>(dice()) << 32 | dice(),
                  .port = port_of(listening),
                  .addresses = addresses_of_this_host()};
  const std::vector<std::string> cards = bootstrap.all_gather(write(mine));
  for (int rank = 0; rank < rank_; ++rank) peers_[rank]->socket = reach(rank, cards[rank], timeout_seconds);
  const auto until = Clock::now() + std::chrono::duration<double>(timeout_seconds);
  for (int missing = size() - 1 - rank_; missing > 0;) {
    Socket caller = accept_from(listening, 1);
    caller.wait_at_most(2);  // a caller that says nothing does not belong to the job
    Greeting greeting;
    if (!caller && Clock::now() > until)
      throw Error(Verdict::fail,
                  fmt::format("rank {} on {}: {} ranks cannot reach it within {:g} s (port {} of {}); "
                              "NCCL_SOCKET_IFNAME names the network to use",
                              rank_, mine.host, missing, timeout_seconds, mine.port, fmt::join(mine.addresses, ", ")));
    if (!caller || !caller.receive(&greeting, sizeof greeting)) continue;
    if (greeting.token != mine.token || greeting.rank <= rank_ || greeting.rank >= size()) continue;
    caller.wait_at_most(0);
    peers_[greeting.rank]->socket = std::move(caller);
    --missing;
  }
  bootstrap.barrier();  // no process may close its connections before all are connected
}

Socket Control::reach(int rank, const std::string& text, double timeout_seconds) {
  const Card card = parse(text);
  std::vector<std::string> addresses = card.addresses;
  if (card.host == host_name()) addresses.insert(addresses.begin(), "127.0.0.1");
  const auto until = Clock::now() + std::chrono::duration<double>(timeout_seconds);
  do {
    for (const std::string& address : addresses) {
      Socket socket = connect_to(address, card.port, 2);
      const Greeting greeting{card.token, rank_};
      if (socket && socket.send(&greeting, sizeof greeting)) return socket;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (Clock::now() < until);
  throw Error(Verdict::fail,
              fmt::format("rank {} on {} cannot reach rank {} on {} (port {} of {}); NCCL_SOCKET_IFNAME names the "
                          "network to use",
                          rank_, host_name(), rank, card.host, card.port, fmt::join(card.addresses, ", ")));
}

Control::~Control() {
  leaving_ = true;
  for (int rank = 0; rank < size(); ++rank)
    if (rank != rank_) send_frame(rank, {.kind = Frame::Kind::goodbye}, "");
  for (int rank = 0; rank < size(); ++rank)
    if (rank != rank_) peers_[rank]->socket.shut_down_sending();
  // Closing a connection with unread control messages would lose our goodbye, so every process reads to the end.
  for (int rank = 0; rank < size(); ++rank)
    if (rank != rank_) peers_[rank]->reader.join();
}

void Control::send_frame(int to, const Frame& frame, const std::string& text) {
  Peer& peer = *peers_[to];
  std::lock_guard lock(peer.sending);
  if (peer.socket.send(&frame, sizeof frame)) (void)peer.socket.send(text.data(), text.size());
}

void Control::send(int to, Label label, const std::string& text) {
  if (to == rank_) return deliver(rank_, label, text);
  send_frame(to, {.label = label, .bytes = text.size()}, text);
}

void Control::end_job(const std::string& text) {
  for (int rank = 0; rank < size(); ++rank)
    if (rank != rank_) send_frame(rank, {.kind = Frame::Kind::end, .bytes = text.size()}, text);
}

void Control::read_from(int rank) {
  const Socket& socket = peers_[rank]->socket;
  Frame frame;
  while (socket.receive(&frame, sizeof frame)) {
    std::string text(frame.bytes, '\0');
    if (!socket.receive(text.data(), text.size())) break;
    if (frame.kind == Frame::Kind::message) {
      deliver(rank, frame.label, std::move(text));
    } else if (frame.kind == Frame::Kind::goodbye) {
      note_departure(rank);
    } else if (alarms_.ended && !leaving_) {
      alarms_.ended(text);
    }
  }
  const bool said_goodbye = has_left(rank);
  note_departure(rank);
  if (!said_goodbye && alarms_.lost && !leaving_) alarms_.lost(rank);
}

void Control::deliver(int from, Label label, std::string text) {
  std::lock_guard lock(mutex_);
  if (label.run < oldest_run_) return;
  boxes_[{label, from}].push_back(std::move(text));
  ++news_;
  arrived_.notify_all();
}

void Control::note_departure(int rank) {
  std::lock_guard lock(mutex_);
  peers_[rank]->left = true;
  ++news_;
  arrived_.notify_all();
}

std::optional<std::string> Control::take(int from, Label label) {
  std::lock_guard lock(mutex_);
  const auto box = boxes_.find({label, from});
  if (box == boxes_.end()) return std::nullopt;
  std::string text = std::move(box->second.front());
  box->second.pop_front();
  if (box->second.empty()) boxes_.erase(box);
  return text;
}

std::uint64_t Control::news() const {
  std::lock_guard lock(mutex_);
  return news_;
}

void Control::wait_for_news(std::uint64_t seen, std::chrono::microseconds at_most) {
  std::unique_lock lock(mutex_);
  arrived_.wait_for(lock, at_most, [&] { return news_ > seen; });
}

bool Control::has_left(int rank) const { return peers_[rank]->left; }

void Control::forget_before(std::uint64_t run) {
  std::lock_guard lock(mutex_);
  oldest_run_ = run;
  std::erase_if(boxes_, [&](const auto& box) { return std::get<0>(box.first).run < run; });
}

std::vector<std::string> all_gather(Control& control, Label label, const std::vector<int>& members,
                                    const std::string& mine, const std::function<bool()>& stop) {
  for (int member : members) control.send(member, label, mine);
  std::vector<std::string> all(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    while (true) {
      const std::uint64_t seen = control.news();
      const bool left = control.has_left(members[i]);  // checked first: messages sent before leaving still count
      if (std::optional<std::string> text = control.take(members[i], label)) {
        all[i] = std::move(*text);
        break;
      }
      if (stop()) return {};
      if (left)
        throw Error(Verdict::fail,
                    fmt::format("rank {} waits for rank {}, which has left the job", control.rank(), members[i]));
      control.wait_for_news(seen, std::chrono::milliseconds(5));
    }
  }
  return all;
}

std::uint64_t key_of(const std::vector<int>& members, const std::string& name, std::uint64_t number) {
  Fnv1a hash;
  auto mix = [&](std::uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) hash.add(static_cast<unsigned char>(value >> (8 * byte)));
  };
  for (int member : members) mix(static_cast<std::uint64_t>(member));
  for (char letter : name) mix(static_cast<unsigned char>(letter));
  mix(number);
  return hash.value();
}

}  // namespace lockstep::nccl
