// The corpus: encoding and decoding, batches that do not depend on the number of ranks, and malformed files.
#include "common/gpt/data/corpus.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/error.hpp"
#include "common/support/tests/refusal_testing.hpp"

namespace lockstep {
namespace {

const std::string kAusten = LOCKSTEP_SOURCE_DIR "/data/austen.txt";

TEST(Corpus, TheShippedTextIsReadWhole) {
  Corpus bytes = Corpus::read(kAusten, TokenKind::bytes), letters = Corpus::read(kAusten, TokenKind::characters);
  EXPECT_EQ(bytes.train().size() + bytes.validation().size(), 1825316u);
  EXPECT_EQ(bytes.validation().size(), 182531u);
  EXPECT_EQ(bytes.vocabulary(), 256u);
  EXPECT_EQ(letters.vocabulary(), 79u);
  EXPECT_EQ(letters.decode(letters.train().first(19)), "PRIDE AND PREJUDICE");
  EXPECT_NEAR(letters.unigram_entropy(), bytes.unigram_entropy(), 1e-12);  // ASCII: the symbols are the bytes
  EXPECT_GT(letters.unigram_entropy(), 3.0);
  EXPECT_LT(letters.unigram_entropy(), 3.2);
}

TEST(Corpus, CharactersAreCodePoints) {
  Corpus corpus = Corpus::of_text("aé€😀 a", TokenKind::characters, 0);
  EXPECT_EQ(corpus.vocabulary(), 5u);  // space, a, é, €, 😀
  EXPECT_EQ(corpus.train().size(), 6u);
  EXPECT_EQ(corpus.train()[0], 1);
  EXPECT_EQ(corpus.decode(corpus.train().all()), "aé€😀 a");
  EXPECT_EQ(corpus.encode("€z"), (std::vector<std::int32_t>{3, 0}));
}

TEST(Corpus, EntropyOfKnownFrequencies) {
  EXPECT_NEAR(Corpus::of_text("abab", TokenKind::bytes, 0).unigram_entropy(), std::log(2), 1e-15);
  EXPECT_EQ(Corpus::of_text("aaaa", TokenKind::bytes, 0).unigram_entropy(), 0);
}

TEST(Corpus, TargetsAreTheNextTokens) {
  Corpus corpus = Corpus::of_text("the quick brown fox", TokenKind::bytes, 0);
  TextBatch batch = corpus.batch(3, 4, 5);
  EXPECT_EQ(batch.inputs.size(), 20u);
  for (std::size_t row = 0; row < 4; ++row)
    for (std::size_t t = 0; t + 1 < 5; ++t) EXPECT_EQ(batch.targets[row * 5 + t], batch.inputs[row * 5 + t + 1]);
}

TEST(Corpus, ABatchDependsOnSeedStepAndRowAlone) {
  Corpus corpus = Corpus::read(kAusten, TokenKind::bytes);
  TextBatch whole = corpus.batch(17, 8, 64);
  EXPECT_EQ(corpus.batch(17, 8, 64).inputs, whole.inputs);
  EXPECT_EQ(corpus.batch(17, 4, 64).inputs, whole.rows(0, 4).inputs) << "fewer sequences are the first of more";
  EXPECT_NE(corpus.batch(18, 8, 64).inputs, whole.inputs);
  EXPECT_NE(corpus.batch(17, 8, 64, 1).inputs, whole.inputs);
  // The shards of any number of ranks, concatenated, are the global batch.
  for (std::size_t ranks : {1, 2, 4, 8}) {
    std::vector<std::int32_t> together;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      TextBatch share = whole.rows(rank * 8 / ranks, 8 / ranks);
      together.insert(together.end(), share.targets.begin(), share.targets.end());
    }
    EXPECT_EQ(together, whole.targets);
  }
}

TEST(Corpus, PlacesAreSpreadOverTheWholeText) {
  std::string text(256, ' ');
  for (int i = 0; i < 256; ++i) text[i] = static_cast<char>(i);  // a token is its position
  Corpus corpus = Corpus::of_text(text, TokenKind::bytes, 0);
  std::vector<int> seen(256, 0);
  for (std::uint64_t step = 0; step < 1000; ++step)
    for (std::int32_t first : corpus.batch(step, 16, 1).inputs) ++seen[static_cast<std::size_t>(first)];
  // 16,000 draws over 255 positions: mean 62.7, standard deviation 7.9; six standard deviations are allowed.
  for (int place = 0; place < 255; ++place) EXPECT_NEAR(seen[place], 62.7, 48) << place;
  EXPECT_EQ(seen[255], 0) << "has no token after it";
}

TEST(Corpus, ValidationGoesThroughItsPartInOrder) {
  Corpus corpus = Corpus::of_text("0123456789abcdefghij", TokenKind::bytes, 0.5);
  EXPECT_EQ(corpus.decode(corpus.validation().all()), "abcdefghij");
  EXPECT_EQ(corpus.decode(corpus.validation_batch(0, 2, 3).inputs), "abcdef");
  EXPECT_EQ(corpus.decode(corpus.validation_batch(1, 2, 3).inputs), "ghiabc");
}

/// Makes a token file: 256 header numbers and `tokens`.
template <class Number>
std::string token_file(std::int32_t magic, std::int32_t version, const std::vector<Number>& tokens) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<std::int32_t>(tokens.size());
  std::string bytes(reinterpret_cast<const char*>(header.data()), header.size() * 4);
  bytes.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Number));
  return bytes;
}

const std::vector<std::uint16_t> kGpt2Tokens{15496, 11, 995, 0, 50256};

TEST(Corpus, TokenFilesHoldNumbers) {
  const std::string path = testing::TempDir() + "tokens.bin";
  std::ofstream(path, std::ios::binary) << token_file(20240520, 1, kGpt2Tokens);
  const Corpus corpus = Corpus::read(path, TokenKind::bytes, 0);
  EXPECT_EQ(corpus.vocabulary(), 50257u);
  EXPECT_EQ(corpus.train().all(), (std::vector<std::int32_t>{15496, 11, 995, 0, 50256}));
  EXPECT_EQ(corpus.bytes_of_rows(3, 4), 3u * 5 * 2) << "two bytes a token, and the token after each row";
  EXPECT_EQ(corpus.decode(corpus.train().first(3)), "15496 11 995 ");
  EXPECT_EQ(corpus.encode(" 995 11\n50257 x "), (std::vector<std::int32_t>{995, 11, 0, 0}));
  std::filesystem::remove(path);

  const std::string bytes = token_file(20240801, 7, std::vector<std::uint32_t>{128000, 9906});
  const auto llama = TokenFile::in(bytes, "t");
  ASSERT_TRUE(llama);
  EXPECT_EQ(llama->vocabulary(), 128256u);
  ASSERT_EQ(llama->size(), 2u);
  std::vector<std::int32_t> tokens(2);
  llama->read(0, tokens);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{128000, 9906}));
}

/// Resident bytes of this process, including those of mapped files.
double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double all = 0, resident = 0;
  statm >> all >> resident;
  return resident * 4096;
}

TEST(Corpus, ATokenFileOfEightGigabytesIsReadWhereABatchNeedsIt) {
  constexpr std::uint32_t kTokens = 4'000'000'000;
  const std::string path = testing::TempDir() + "large_tokens.bin";
  std::string bytes = token_file(20240520, 1, kGpt2Tokens);
  std::memcpy(bytes.data() + 8, &kTokens, sizeof kTokens);
  std::ofstream(path, std::ios::binary) << bytes;
  std::error_code refused;  // the rest is a hole in the file: zeros that use no disk space
  std::filesystem::resize_file(path, 1024 + 2ull * kTokens, refused);
  if (refused) GTEST_SKIP() << "no file of 8 GB here: " << refused.message();
  const double before = resident_bytes();
  {
    const Corpus corpus = Corpus::read(path, TokenKind::bytes);
    EXPECT_EQ(corpus.train().size(), 3'600'000'000u);
    EXPECT_EQ(corpus.train()[0], 15496);
    EXPECT_EQ(corpus.train()[4], 50256);
    EXPECT_LT(corpus.unigram_entropy(), 1e-3) << "of a sample, nearly all zeros";
    for (std::uint64_t step = 0; step < 10; ++step)
      EXPECT_EQ(corpus.batch(step, 8, 1024).targets, std::vector<std::int32_t>(8 * 1024, 0));
    EXPECT_LT(resident_bytes() - before, 200e6) << "of 8 GB";
  }
  std::filesystem::remove(path);
}

TEST(Corpus, RowsOfABatchAreThoseOfTheWholeBatch) {
  const Corpus corpus = Corpus::read(kAusten, TokenKind::bytes);
  const TextBatch all = corpus.batch(3, 7, 20, 5), mine = corpus.batch_rows(3, 2, 4, 20, 5);
  EXPECT_EQ(mine.sequences, 4u);
  EXPECT_EQ(mine.inputs, all.rows(2, 4).inputs);
  EXPECT_EQ(mine.targets, all.rows(2, 4).targets);
}

TEST(Corpus, TokenFilesWithSomethingWrongAreRefusedInOneSentence) {
  const auto why = [](const std::string& bytes) { return refusal([&] { TokenFile::in(bytes, "t.bin"); }); };
  const std::string good = token_file(20240520, 1, kGpt2Tokens);
  EXPECT_FALSE(TokenFile::in("a text", "t.bin"));
  EXPECT_FALSE(TokenFile::in("", "t.bin"));
  EXPECT_EQ(why(good.substr(0, 1000)), "token file t.bin: its header has 1000 bytes instead of 1024");
  EXPECT_EQ(why(good.substr(0, good.size() - 1)),
            "token file t.bin: says that it holds 5 tokens of 2 bytes, and 9 bytes follow its header");
  EXPECT_EQ(why(good + "x"),
            "token file t.bin: says that it holds 5 tokens of 2 bytes, and 11 bytes follow its header");
  EXPECT_EQ(why(token_file(20240520, 2, kGpt2Tokens)),
            "token file t.bin: is of version 2, and only version 1 of this kind is known");
  EXPECT_EQ(why(token_file(20240521, 1, kGpt2Tokens)),
            "token file t.bin: its magic number is 20240521, and only 20240520 (GPT-2's tokens) and 20240801 (Llama "
            "3's) are known");
  const std::string bad = token_file(20240520, 1, std::vector<std::uint16_t>{1, 50257});
  std::vector<std::int32_t> tokens(2);
  EXPECT_EQ(refusal([&] { TokenFile::in(bad, "t.bin")->read(0, tokens); }),
            "token file t.bin: token 1 is 50257, and its tokenizer has 50257 tokens");
}

TEST(Corpus, BadFilesAreRefusedInOneSentence) {
  EXPECT_EQ(refusal([] { Corpus::read("/nowhere/text", TokenKind::bytes); }),
            "cannot read /nowhere/text: No such file or directory");
  EXPECT_NE(refusal([] { Corpus::read("/", TokenKind::bytes); }).find("folder"), std::string::npos);
  EXPECT_EQ(refusal([] { Corpus::of_text("", TokenKind::bytes); }), "corpus text: is empty");
  EXPECT_NE(refusal([] { Corpus::of_text("ab\xff", TokenKind::characters); }).find("byte 2 is not UTF-8"),
            std::string::npos);
  EXPECT_EQ(refusal([] { Corpus::of_text("hello", TokenKind::bytes, 0).batch(0, 1, 5); }),
            "corpus text: its training part has 5 tokens, too few for a sequence of 5 and the token after it");
}

}  // namespace
}  // namespace lockstep
