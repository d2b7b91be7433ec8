// Every number of docs/learn/theory/week21.md.
#include <gtest/gtest.h>

#include <cmath>

#include "labs/week21_data_parallel/bucketed_ddp.hpp"
#include "labs/week21_data_parallel/compression.hpp"
#include "labs/week21_data_parallel/hierarchical_all_reduce.hpp"
#include "labs/week21_data_parallel/local_sgd.hpp"
#include "labs/week21_data_parallel/scaling_laws.hpp"
#include "tools/tests/numbers/computed.hpp"
#include "tools/tests/numbers/page.hpp"

namespace lockstep::numbers {
namespace {

using namespace week21;

constexpr double kMicro = 1e6, kMilli = 1e3;  // seconds as µs and ms
const CostModel kLink = {.alpha = 2e-6, .beta = 1 / 25e9};

CostModel uniform() { return cost_model(find_machine("uniform", kMachines), 4); }
double message(CostModel cost, double bytes) { return cost.alpha + bytes * cost.beta; }

/// Seconds that main waits after a backward pass with b buckets, whose all-reduces take so long together: the schedule,
/// bucket after bucket.
double exposed(double backward, int buckets, double communication) {
  double end = 0;
  for (int i = 1; i <= buckets; ++i) end = std::max(end, i * backward / buckets) + communication / buckets;
  return end - backward;
}

void averages(Page& page) {
  const double w = 10 - 0.1 * (1 + 3 + 5 + 7) / 4, of_ranks = 10 - 0.1 * ((1 + 3) / 2.0 + (5 + 7) / 2.0) / 2;
  page.cites("the example's", {"has a single parameter, w = 10."});
  page.says("with a learning rate of 0.1 you move w to {}.", {fixed(w, 1)});
  page.says("| rank 0 | 1, 3 | 2 | 4 | {} |", {fixed(of_ranks, 1)});
  page.says("| rank 1 | 5, 7 | 6 | 4 | {} |", {fixed(of_ranks, 1)});
  page.says("rank 1 at w = {}.", {fixed(10.5, 1)});
  page.says("they are still {} apart", {fixed((10.5 - 0.1 * 4) - (10 - 0.1 * 4), 1)});
  page.says("their average is {}, where the mean over the batch is {}.", {fixed((3 + 7) / 2.0), fixed(16 / 4.0)});
  page.says("Then 3/4 · 3 + 1/4 · 7 = {}.", {fixed(3 / 4.0 * 3 + 1 / 4.0 * 7)});
  page.says("For {} ranks that takes ten rounds, because nine reach only {}.", {fixed(1000), fixed(1 << 9)});
  EXPECT_EQ(std::ceil(std::log2(1000)), 10);
}

void prices(Page& page) {
  const CostModel cost = uniform();
  page.cites("the example's",
             {"so lg 8 = 3", "an array of 400 KB each", "and how long 100 MB take on them",
              "| n = 100 MB, 25 GB/s, α and γ ignored |", "| link | 1/β, one direction | n = 100 MB |"});
  page.says("on which a message takes {} µs, each of its bytes {} ns more, and adding a byte to another {} ns.",
            {fixed(cost.alpha * kMicro), fixed(cost.beta * 1e9), fixed(cost.gamma * 1e9, 1)});
  page.says("you pay {} µs for a message, whatever its length, and {} ns for",
            {fixed(cost.alpha * kMicro), fixed(cost.beta * 1e9)});
  const auto row = [&](const std::string& name, double bytes, int digits, int of_hundred) {
    const double all = message(cost, bytes);
    page.says("| " + name + " | {} µs | {} µs | {} µs | {}% |",
              {fixed(cost.alpha * kMicro), fixed(bytes * cost.beta * kMicro, digits), fixed(all * kMicro, digits),
               fixed(100 * cost.alpha / all, of_hundred)});
  };
  page.cites("the example's", {"| 4 bytes |"});
  row("4 bytes", 4, 3, 1);
  row("4 KB", 4e3, 0, 0);
  row("400 KB", 400e3, 0, 1);
  page.says("For α = 2 µs and 25 GB/s that is {} KB.", {fixed(kLink.alpha / kLink.beta / 1e3)});
  page.says("| PCIe 4.0 x16, in practice | 25 GB/s | {} ms |", {fixed(kMilli * 100e6 / 25e9, 1)});
  page.says("| NVLink of an A100 | 300 GB/s | {} ms |", {fixed(kMilli * 100e6 / 300e9, 2)});
  page.says("| InfiniBand HDR, one port | 25 GB/s | {} ms |", {fixed(kMilli * 100e6 / 25e9, 1)});
  page.says("| 10 Gb/s Ethernet | {} GB/s | {} ms |", {fixed(10.0 / 8, 2), fixed(kMilli * 100e6 / 1.25e9)});
  page.cites("data sheets", {"an A100's \"600 GB/s\" is 300 in each"});
  page.says("With NCCL you get {} of the 300 GB/s",
            {fixed(1e-9 / cost_model(find_machine("dgx-a100", kMachines), 8).beta)});

  page.cites("the example's", {"You send 100 MB over a link with α = 2 µs and 25 GB/s, in messages of 1 KB",
                               "One of 100 KB takes 6 µs, and one of 1 MB takes 42 µs."});
  const double one = message(kLink, 1e3), all = 1e5 * one;
  page.says("Each of the {} messages takes 2 + {} = {} µs, which makes {} ms.",
            {fixed(100e6 / 1e3), fixed(1e3 * kLink.beta * kMicro, 2), fixed(one * kMicro, 2), fixed(all * kMilli)});
  page.says("In a single message the same bytes take {} ms. You get {}% of the bandwidth.",
            {fixed(message(kLink, 100e6) * kMilli, 1), fixed(100 * 100e6 * kLink.beta / all)});
  const double rate = (1e6 - 100e3) / (42e-6 - 6e-6);
  page.says("You divide the difference, {} KB, by {} µs and get {} GB/s.", {fixed(900), fixed(36), fixed(rate / 1e9)});
  page.says("the bytes of the smaller message take {} µs, so α is the other {} µs.",
            {fixed(100e3 / rate * kMicro), fixed(6 - 100e3 / rate * kMicro)});
}

void four_ranks(Page& page) {
  const CostModel cost = uniform();
  const double n = 400e3, step = message(cost, n), add = n * cost.gamma, chunk = message(cost, n / 4);
  const auto us = [](double seconds) { return fixed(seconds * kMicro); };
  const double naive = naive_all_reduce_seconds(cost, 4, n), ring = ring_all_reduce_seconds(cost, 4, n);
  page.says("Why does it take one algorithm {} µs and another {}?", {us(naive), us(ring)});
  page.says("an array takes 1 + {} µs to arrive and {} µs to be added, three times, so {} µs.",
            {us(n * cost.beta), us(add), us(3 * (step + add))});
  page.says(
      "one right behind the other, in {} µs. The last one still has to travel, which adds {} µs. "
      "Together that is {} µs.",
      {us(3 * n * cost.beta), us(cost.alpha), us(naive)});
  EXPECT_NEAR(naive, 3 * (step + add) + 3 * n * cost.beta + cost.alpha, 1e-12);
  page.says("a chunk has {} KB. Three steps take 1 + 100 + {} µs each, and three take 1 + {}, so {} + {} = {} µs.",
            {fixed(n / 4 / 1e3), us(n / 4 * cost.gamma), us(n / 4 * cost.beta), us(3 * (chunk + n / 4 * cost.gamma)),
             us(3 * chunk), us(ring)});
  page.says("By these formulas it takes {} µs for 100 bytes on our four ranks, and the ring {}.",
            {fixed(naive_all_reduce_seconds(cost, 4, 100) * kMicro, 2),
             fixed(ring_all_reduce_seconds(cost, 4, 100) * kMicro, 2)});

  const double doubling = recursive_doubling_seconds(cost, 4, n), halving = rabenseifner_seconds(cost, 4, n);
  page.says(
      "recursive doubling takes 2 · (1 + 400 + 40) = {} µs, and Rabenseifner's algorithm 4 + {} = {} µs. "
      "The ring takes {}.",
      {us(doubling), us(halving - 4 * cost.alpha), us(halving), us(ring)});
  page.cites("the example's", {"With 1 KB we get", "For our four ranks with 400 KB,"});
  page.says("we get {}, {} and {} µs.", {fixed(recursive_doubling_seconds(cost, 4, 1e3) * kMicro, 1),
                                         fixed(rabenseifner_seconds(cost, 4, 1e3) * kMicro, 1),
                                         fixed(ring_all_reduce_seconds(cost, 4, 1e3) * kMicro, 1)});
}

void sizes(Page& page) {
  const CostModel bytes_only = {.beta = kLink.beta}, cost = uniform();
  const auto naive = [&](int p) { return kMilli * naive_all_reduce_seconds(bytes_only, p, 100e6); };
  const auto ring = [&](int p) { return kMilli * ring_all_reduce_seconds(bytes_only, p, 100e6); };
  page.cites("the example's", {"ignored | p = 2 | 8 | 64 | 1,024 |", "Take 100 MB over 25 GB/s"});
  page.says("| naive: 2(p − 1)nβ | {} ms | {} ms | {} ms | {} s |",
            {fixed(naive(2)), fixed(naive(8)), fixed(naive(64)), fixed(naive(1024) / 1e3, 1)});
  page.says("| ring: 2(p − 1)/p·nβ | {} ms | {} ms | {} ms | {} ms |",
            {fixed(ring(2)), fixed(ring(8)), fixed(ring(64), 1), fixed(ring(1024), 1)});
  const double latency = kMilli * ring_all_reduce_seconds({.alpha = 2e-6}, 1024, 1);
  EXPECT_NEAR(latency / ring(1024), 0.5, 0.02);
  page.says("For p = 1,024 and α = 2 µs that is {} ms, half as long as the {} MB take.", {fixed(latency), fixed(100)});
  page.says("That is near n = α/(2β + γ), some {} KB over", {fixed(kLink.alpha / (2 * kLink.beta) / 1e3)});
  page.cites("the formula's", {"Then it sends the sum p − 1 times."});

  const double more = (3 - arrays_sent(8)) * cost.beta, added = (3 - 7 / 8.0) * cost.gamma, each = more + added;
  const double against_ring = 11 * cost.alpha / each, against_halving = 3 * cost.alpha / each;
  page.says("2(p − 1)/p is {}. Recursive doubling sends (3 − {})·n bytes more, and adds (3 − {})·n more.",
            {fixed(arrays_sent(8), 2), fixed(arrays_sent(8), 2), fixed(7 / 8.0, 3)});
  page.says("That costs {} + {} = {} ns for each byte of the array.",
            {fixed(more * 1e9, 2), fixed(added * 1e9, 4), fixed(each * 1e9, 4)});
  page.says("it saves 14 − 3 = {} messages of {} µs, so it wins up to {}/{} = {} bytes.",
            {fixed(11), fixed(cost.alpha * kMicro), fixed(11e3), fixed(each * 1e9, 4), fixed(against_ring)});
  page.says("it saves 3, so it wins up to {}/{} = {} bytes.",
            {fixed(3e3), fixed(each * 1e9, 4), fixed(against_halving)});
  EXPECT_NEAR(recursive_doubling_seconds(cost, 8, against_ring), ring_all_reduce_seconds(cost, 8, against_ring), 1e-12);
  EXPECT_NEAR(recursive_doubling_seconds(cost, 8, against_halving), rabenseifner_seconds(cost, 8, against_halving),
              1e-12);
}

void hierarchies(Page& page) {
  const auto kb = [](double bytes) { return fixed(bytes / 1e3); };
  const SlowLinkBytes flat = slow_link_bytes_of_ring(2, 4, 400e3), rails = slow_link_bytes_of_hierarchy(2, 4, 400e3);
  page.says("A flat ring through all of them cuts {} KB into eight chunks.", {kb(400e3)});
  page.says("sends 14 chunks of {} KB across, so {} KB through one port.", {kb(400e3 / 8), kb(flat.per_rank)});
  page.says("its node's sum of one quarter, {} KB.", {kb(400e3 / 4)});
  page.says("Each sends 2 chunks of {} KB across.", {kb(rails.per_rank / 2)});
  page.says("A port now carries {} KB instead of 700, and we wait", {kb(rails.per_rank)});
  page.says("The node as a whole sends {} KB instead of {},", {kb(rails.per_node), kb(flat.per_node)});

  const double seconds = ring_all_reduce_seconds(cost_model(find_machine("dgx-a100", kMachines), 8), 8, 500e6);
  const Bandwidth reached = bandwidth(8, 500e6, seconds);
  page.says("8 A100 sum {} MB in {} ms.", {fixed(500), fixed(seconds * kMilli, 2)});
  page.says("algbw = n/T, is {} GB/s.", {fixed(reached.algorithm / 1e9, 1)});
  page.says("busbw = algbw · 2(p − 1)/p, is {} GB/s.", {fixed(reached.bus / 1e9, 1)});
  const Machine h200 = find_machine("dgx-h200", kMachines);
  const double gib8 = 8.0 * (1 << 30), measured = library_all_reduce_seconds(h200, 8, gib8);
  const Bandwidth switched = bandwidth(8, gib8, measured);
  page.cites("the example's", {"8 H200, 8 GiB"});
  page.says("8 GiB take {} ms, so busbw is {} GB/s on links of 450.",  // its data sheet
            {fixed(measured * kMilli, 1), fixed(switched.bus / 1e9)});
  page.says("The factor {} assumes that ranks add.", {fixed(arrays_sent(8), 2)});
  page.says("each GPU sends n instead of {}n, and its link carries {} GB/s.",
            {fixed(arrays_sent(8), 2), fixed(switched.algorithm / 1e9)});
  page.says("where the flat ring sends {}n.", {fixed(arrays_sent(16), 3)});
  page.cites("docs/learn/claims.md", {"350 GB of gradients take 0.58 s on 8 GPUs, because NVLink moves 600 GB/s",
                                      "And the 600 GB/s count both directions"});
  page.says("So it takes 2 · 7/8 · 350/300 = {} s,", {fixed(arrays_sent(8) * 350e9 / 300e9, 2)});

  const auto mb = [](double bytes) { return fixed(bytes / 1e6); };
  const SlowLinkBytes two = slow_link_bytes_of_hierarchy(2, 8, 256e6),
                      many = slow_link_bytes_of_hierarchy(16, 8, 256e6);
  page.cites("the example's", {"Two nodes of 8 GPUs sum 256 MB."});
  page.says("we send 2 · 15/16 · 256 = {} MB out of a node,", {mb(slow_link_bytes_of_ring(2, 8, 256e6).per_node)});
  page.says("we send 2 · 1/2 · 256 = {} MB, which is {} MB through each", {mb(two.per_node), mb(two.per_rank)});
  page.says("the flat ring sends {} MB, still through one port.", {mb(slow_link_bytes_of_ring(16, 8, 256e6).per_node)});
  page.says("Rails send 2 · 15/16 · 256 = {} MB, or {} MB per port.", {mb(many.per_node), mb(many.per_rank)});

  page.says("For 64 ranks these are {}, {} and {} arrays sent.",
            {fixed(63), fixed(std::log2(64)), fixed(arrays_sent(64), 2)});
}

void rounding(Page& page) {
  const float of_rank[] = {1e8f, 1, -1e8f, 1};
  const std::string rows[] = {
      "| 0 | 1, 2, 3, 0 | 1 − 10⁸ + 1 + 10⁸ | {} |", "| 1 | 2, 3, 0, 1 | −10⁸ + 1 + 10⁸ + 1 | {} |",
      "| 2 | 3, 0, 1, 2 | 1 + 10⁸ + 1 − 10⁸ | {} |", "| 3 | 0, 1, 2, 3 | 10⁸ + 1 − 10⁸ + 1 | {} |"};
  const auto sum_from = [&](int first) {
    float sum = of_rank[first % 4];
    for (int i = 1; i < 4; ++i) sum += of_rank[(first + i) % 4];
    return fixed(sum);
  };
  for (int chunk = 0; chunk < 4; ++chunk) page.says(rows[chunk], {sum_from(chunk + 1)});
  page.says("Rank 0 adds in the order 0, 1, 2, 3 and gets {}. Rank 1 gets {}, rank 2 gets {}, and rank 3 gets {}.",
            {sum_from(0), sum_from(1), sum_from(2), sum_from(3)});
  page.says("In fp32 the neighbours of 10⁸ are {} apart", {fixed(std::nextafter(1e8f, 2e8f) - 1e8f)});
  page.cites("docs/learn/claims.md, AdditionIsNotAssociative", {"31% of the ring's sums differ", "by at most 5·10⁻⁷"});
  page.says("every whole number up to 2²⁴ = {}.", {fixed(1 << 24)});
  EXPECT_EQ(16777216.0f + 1, 16777216.0f);
  page.says("at most {} times the number of ranks. So you may have up to {} ranks.",
            {fixed(1000), fixed((1 << 24) / 1000)});
  page.cites("the example's", {"random whole numbers from 0 to 1,000"});
}

void overlap(Page& page) {
  const auto ms = [](double milliseconds, int digits = 0) { return fixed(milliseconds, digits); };
  page.says("(PyTorch: {} MB, the first {} MB)", {fixed(static_cast<double>(DdpOptions{}.bucket_bytes >> 20)),
                                                  fixed(static_cast<double>(DdpOptions{}.first_bucket_bytes >> 20))});
  page.cites("the example's", {"your forward pass takes 2 ms and your backward pass 8 ms, in four layers of 2 ms.",
                               "Each layer fills a bucket, whose all-reduce takes 1.5 ms.",
                               "The first bucket is ready at 4 ms, and its all-reduce ends at 5.5,",
                               "a link on which a bucket's all-reduce takes 2 ms", "And with 2.5 ms?",
                               "With 2 ms, R = 8 ms = B", "With 2.5 ms, R is 10 ms."});
  const double waits = exposed(8, 4, 6);
  page.says("The last bucket is ready at {} ms,", {ms(2 + 8)});
  page.says("Main waits for it until {} ms. We call these {} ms *exposed*, and the other {} ms are hidden.",
            {ms(2 + 8 + waits, 1), ms(waits, 1), ms(6 - waits, 1)});
  page.says("at 2 + max(8 + 2, 2 + 8) = {} ms, with {} ms exposed, and the link works without a pause from 4 to {} ms.",
            {ms(2 + 8 + exposed(8, 4, 8)), ms(exposed(8, 4, 8)), ms(2 + 8 + exposed(8, 4, 8))});
  page.says("at 2 + max(8 + {}, 2 + 10) = {} ms, so {} ms are exposed.",
            {ms(2.5, 1), ms(2 + 8 + exposed(8, 4, 10)), ms(exposed(8, 4, 10))});

  const double latency = kMilli * ring_all_reduce_seconds({.alpha = 10e-6}, 8, 1);
  const auto together = [&](int b) { return 6 + b * latency; };
  page.cites("the example's", {"take 6 ms together, whatever", "(8 ranks, α = 10 µs). The backward pass takes 8 ms."});
  page.says("Each bucket adds 2(p − 1)α = {} ms of latency", {ms(latency, 2)});
  page.says("With 4 buckets R = 6 + 4 · {} = {} ms, and R/b = {} ms are exposed.",
            {ms(latency, 2), ms(together(4), 2), ms(exposed(8, 4, together(4)), 2)});
  page.says("With 14 buckets R = {} ms, which still fits, and {} ms are exposed.",
            {ms(together(14), 2), ms(exposed(8, 14, together(14)), 2)});
  page.says("With 40 buckets R = {} ms, which no longer fits. Then R − B + B/b = {} ms are exposed.",
            {ms(together(40), 1), ms(exposed(8, 40, together(40)), 1)});
  for (int b : {1, 4, 13, 15, 40})
    EXPECT_GT(exposed(8, b, together(b)), exposed(8, 14, together(14))) << b << " buckets";

  page.cites("the example's", {"a microbatch takes C = 10 ms and an all-reduce of all gradients 6 ms"});
  page.says("which takes 4 · (10 + 6) = {} ms. With it only the last one does, which takes 4 · 10 + 6 = {} ms.",
            {fixed(4 * (10 + 6)), fixed(4 * 10 + 6)});
  page.cites("the question's, which the section answers", {"computes for 10 ms and its all-reduces take 6"});
}

void accumulation(Page& page) {
  page.says("All samples together add up to 5 · 3 + 3 · 7 = {}, so the mean over the batch is 36/8 = {}.",
            {fixed(5 * 3 + 3 * 7), fixed(36 / 8.0, 1)});
  page.says("we get {}, because each of the three", {fixed((3 + 7) / 2.0)});
  page.says("Here 5/8 · 3 + 3/8 · 7 = {}.", {fixed(5 / 8.0 * 3 + 3 / 8.0 * 7, 1)});
  const double of_one = 1 / 4.0 / 1, of_eight = 1 / 4.0 / 8;  // what a sample counts in a mean of four means
  page.says("Then that one sample would count {} times as much", {fixed(of_one / of_eight)});
  page.cites("the example's", {"a mean loss of 2.0, the second 100 and a mean loss of 4.0"});
  page.says("Weighted by tokens it is {} · 2.0 + {} · 4.0 = {}. The average of the two is {},",
            {fixed(0.9, 1), fixed(0.1, 1), fixed((900 * 2.0 + 100 * 4.0) / 1000, 1), fixed((2.0 + 4.0) / 2, 1)});
  page.says("is 1/2 · 3 − 1/2 · 1 = {},", {fixed((3 - 1) / 2.0)});
}

void communication(Page& page) {
  page.says("10 ms of compute, 8 ms of all-reduce: 10/18 = {}%", {fixed(100 * communication_efficiency(10e-3, 8e-3))});
  const double tokens = 8 * 150e12 / (25e9 * 6);
  const auto percent = [](double tokens_of_rank, double bytes_per_second, double bytes_per_gradient = 4,
                          double flop_per_second = 150e12) {
    const Workload work{.ranks = 1 << 20,
                        .tokens = tokens_of_rank,
                        .flop_per_second = flop_per_second,
                        .bytes_per_parameter = bytes_per_gradient};
    return 100 * overhead_chart({1e9}, {bytes_per_second}, work).front().efficiency;
  };
  EXPECT_NEAR(percent(tokens, 25e9), 50, 1e-3) << "as long as compute";
  page.cites("the example's", {"A100 at 150 TFLOP/s, fp32 gradients (4 bytes) and PCIe at 25 GB/s"});
  page.says("we get 8 · 150e12 / (25e9 · 6 · tokens) = {} / tokens. So with {} tokens per rank and step",
            {fixed(tokens), fixed(tokens)});
  page.says("With {} it takes an eighth. Over NVLink (300 GB/s, twelve times as much) an eighth takes only {} tokens.",
            {fixed(8 * tokens), rounded(8 * tokens * 25 / 300, 2)});
  page.says("| efficiency without overlap | {} tokens per rank | {} | {} |", {fixed(2e3), fixed(8e3), fixed(64e3)});
  page.says("| PCIe, 25 GB/s | {}% | {}% | {}% |",
            {fixed(percent(2e3, 25e9)), fixed(percent(8e3, 25e9)), fixed(percent(64e3, 25e9))});
  page.says("| NVLink, 300 GB/s | {}% | {}% | {}% |",
            {fixed(percent(2e3, 300e9)), fixed(percent(8e3, 300e9)), fixed(percent(64e3, 300e9))});

  page.cites("the question's", {"with gradients of 2 bytes", "add 10% to the step", "computes 2.5 times as fast",
                                "keep the link and the 4 bytes"});
  page.says("so the ratio is {} / tokens. It is {} with {} tokens.",
            {fixed(tokens / 2), fixed(0.1, 1), fixed(tokens / 2 / 0.1)});
  EXPECT_NEAR(percent(40e3, 25e9, 2), 100 / 1.1, 1e-3);
  page.says("so it becomes {} / tokens, and you need {} tokens.", {fixed(2.5 * tokens), fixed(2.5 * tokens)});
  EXPECT_NEAR(percent(20e3, 25e9, 4, 2.5 * 150e12), 50, 1e-3);
  page.says("that is {} / tokens ≤ ⅔, and you need {} tokens.", {fixed(tokens), fixed(tokens * 3 / 2)});
}

/// The step of the example: 160 ms of compute, gradients that take 4 ms on the link.
double step_seconds(int p, double alpha) {
  return 160e-3 / p + ring_all_reduce_seconds({.alpha = alpha, .beta = kLink.beta}, p, 100e6);
}

void scaling(Page& page) {
  page.says("With {}% you get at most {}, and {} on 99 ranks.",
            {fixed(1), fixed(amdahl_speedup(0.01, 1 << 30)), fixed(amdahl_speedup(0.01, 99))});
  page.cites("the formula's", {"S(p) = 1/(s + (1 − s)/p)"});
  const double nb = 100e6 * kLink.beta, s = 2 * nb / 160e-3;
  page.says("computes for C = {} ms on one rank, that its gradients take nβ = {} ms on the link (100 MB at 25 GB/s)",
            {fixed(160), fixed(nb * kMilli)});
  page.cites("the example's", {"(100 MB at 25 GB/s)", "Now let each message take α = 2 µs", "| speedup with α = 2 µs |",
                               "| Karp–Flatt's e with α = 2 µs |", "| ranks | 2 | 8 | 64 | 195 | 1,024 | 8,192 |"});
  page.says("In the example we get s = 8/160 = {}.", {fixed(s, 2)});
  const int ranks[] = {2, 8, 64, 195, 1024, 8192};
  std::vector<std::string> bytes, all, fraction;
  for (int p : ranks) {
    EXPECT_NEAR(speedup(160e-3, step_seconds(p, 0)), amdahl_speedup(s, p), 1e-9);
    bytes.push_back(fixed(amdahl_speedup(s, p), 1));
    all.push_back(fixed(speedup(160e-3, step_seconds(p, kLink.alpha)), 1));
    fraction.push_back(fixed(karp_flatt(speedup(160e-3, step_seconds(p, kLink.alpha)), p), 3));
  }
  page.says("| speedup, only bytes (Amdahl) | {} | {} | {} | {} | {} | {} |",
            {bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]});
  page.says("| speedup with α = 2 µs | {} | {} | {} | {} | {} | {} |",
            {all[0], all[1], all[2], all[3], all[4], all[5]});
  page.says("| Karp–Flatt's e with α = 2 µs | {} | {} | {} | {} | {} | {} |",
            {fraction[0], fraction[1], fraction[2], fraction[3], fraction[4], fraction[5]});
  page.says("With the numbers above and 64 ranks it is {}%.",
            {fixed(100 * communication_efficiency(160e-3, step_seconds(64, kLink.alpha) - 160e-3 / 64))});

  page.says("On 4 ranks e = (1/3 − 1/4)/(3/4) = {}, on 8 ranks e = (1/4 − 1/8)/(7/8) = {}.",
            {fixed(karp_flatt(3, 4), 3), fixed(karp_flatt(4, 8), 3)});
  int best = 1;
  for (int p = 2; p < 10000; ++p)
    if (step_seconds(p, kLink.alpha) < step_seconds(best, kLink.alpha)) best = p;
  page.says("the speedup has its maximum near {} ranks.", {fixed(best)});
  page.says("√({} ms / {} µs), and {} has the root {}.", {fixed(160 - 2 * nb * kMilli), fixed(2 * kLink.alpha * kMicro),
                                                          fixed((160e-3 - 2 * nb) / (2 * kLink.alpha)), fixed(best)});
}

void less_to_send(Page& page) {
  const auto small = [](double rate, int steps) { return std::pow(1 - rate, steps); };
  page.says("four steps of {} lead from 1 to {} and one of {} to {}.",
            {fixed(0.1, 1), fixed(small(0.1, 4), 3), fixed(0.4, 1), fixed(small(0.4, 1), 1)});
  page.says("Four steps of {} lead to {} and one of {} to {}.",
            {fixed(0.05, 2), fixed(small(0.05, 4), 3), fixed(0.2, 1), fixed(small(0.2, 1), 1)});

  const Compression top_k{.method = Method::top_k, .density = 0.01}, int8{.method = Method::int8, .block = 1 << 20},
      two_step{.method = Method::int8_two_step, .block = 1 << 20};
  constexpr double kElements = 1 << 24;
  EXPECT_NEAR(ranks_to_break_even(top_k), 1 / top_k.density, 1e-6);
  page.says("Top-k at density ρ sends {} bytes per pair",
            {fixed(bytes_sent(top_k, 2, kElements) / (top_k.density * kElements))});
  page.says("int8 sends (p − 1)·n/4 and breaks even at {} ranks.", {fixed(ranks_to_break_even(int8))});
  for (int ranks : {2, 64})
    page.says("int8 keeps its factor of {} for every p",
              {fixed(bytes_sent({}, ranks, kElements) / bytes_sent(two_step, ranks, kElements))});
  page.cites("the formula's", {"a delay of some 1/ρ steps", "the two are equal at p = 1/ρ."});
  page.says("which is {} for a rate of {} and μ = {}",
            {fixed(OuterSgd{}.learning_rate / (1 - OuterSgd{}.momentum)), fixed(OuterSgd{}.learning_rate, 1),
             fixed(OuterSgd{}.momentum, 1)});

  const auto arrays = [&](const Compression& how, int p) { return bytes_sent(how, p, kElements) / (4 * kElements); };
  page.cites("the question's", {"Top-k sends 1% of the elements."});
  page.says("On 16 ranks it sends 15 · {}n = {}n and the ring {}n, which is {} times as much.",
            {fixed(arrays(top_k, 2), 2), fixed(arrays(top_k, 16), 1), fixed(arrays({}, 16), 3),
             fixed(arrays({}, 16) / arrays(top_k, 16), 2)});
  page.says("On 64 ranks it sends {}n and the ring {}n, so the ring sends only {} times as much.",
            {fixed(arrays(top_k, 64), 2), fixed(arrays({}, 64), 2), fixed(arrays({}, 64) / arrays(top_k, 64), 2)});
}

void papers(Page& page) {
  page.cites("Gibiansky, 2017", {"the 40 GPUs of their experiment"});
  page.cites("arXiv 1802.05799, sections 2, 7 and 8",
             {"about half of 128 GPUs' capacity was lost",
              "88% efficiency for Inception V3 and ResNet-101 on 25 GbE. RDMA adds 3–4% for these two, but about 30% "
              "for VGG-16.",
              "brought up to 65%"});
  page.cites("arXiv 2006.15704, abstract", {"near-linear to 256 GPUs"});
  page.cites("arXiv 1706.02677, title, abstract and section 2",
             {"ImageNet in 1 hour", "(8,192 images for ResNet-50 on ImageNet)", "a gradual warm-up of 5 epochs",
              "up to batches of 8,192. They reach about 90% efficiency from 8 to 256 GPUs"});
  page.cites("./lab bench local_sgd --ranks 4 --steps 400 and 1600, as in the handout of 21.12",
             {"overshoot at H = 4. With H = 16 on 4 ranks they match the plain average after 400 steps and beat it "
              "after 1,600"});
}

TEST(Week21, Theory) {
  Page page("docs/learn/theory/week21.md");
  averages(page);
  prices(page);
  four_ranks(page);
  sizes(page);
  hierarchies(page);
  rounding(page);
  overlap(page);
  accumulation(page);
  communication(page);
  scaling(page);
  less_to_send(page);
  papers(page);
  page.expect_all_known();
}

}  // namespace
}  // namespace lockstep::numbers
