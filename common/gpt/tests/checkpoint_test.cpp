// Tests that a checkpoint saved in any layout can be read in any other, and that an altered file is rejected by name.
#include <functional>
#include <numeric>

#include "common/gpt/checkpoint/crc32c.hpp"
#include "common/gpt/tests/checkpoint_testing.hpp"
#include "common/gpt/tests/memory_files.hpp"
#include "common/support/tests/refusal_testing.hpp"

namespace lockstep::checkpoint {
namespace {

TEST(Crc32c, IsTheStandards) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  std::string text(100, 'a');
  std::iota(text.begin(), text.end(), ' ');
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(crc32c(text.substr(cut), crc32c(text.substr(0, cut))), crc32c(text)) << cut;
}

TEST(Checkpoint, ColumnsAreOnePieceAndAnyStretchAtMostThree) {
  const std::vector<Tensor> tensors{{"a", 1000, 64}};
  std::vector<checkpoint::Run> columns;
  for (std::size_t row = 0; row < 1000; ++row) columns.push_back({0, row * 64 + 16, row * 16, 16});
  EXPECT_EQ(pieces_of(tensors, columns), (std::vector<Piece>{{0, 0, 1000, 16, 16, 0, 16}}));
  EXPECT_EQ(pieces_of(tensors, {{0, 70, 0, 500}}),
            (std::vector<Piece>{{0, 1, 1, 6, 58, 0, 58}, {0, 2, 6, 0, 64, 58, 64}, {0, 8, 1, 0, 58, 442, 58}}));
  EXPECT_EQ(pieces_of(tensors, {{0, 64, 0, 640}}), (std::vector<Piece>{{0, 1, 10, 0, 64, 0, 64}}));
}

TEST(Checkpoint, AnyLayoutIsReadInAnyOther) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    MemoryFiles files;
    const Layout written = random_layout(some_tensors(), 1 + random() % 5, random);
    save(files, written, 40, seed);
    const Layout read = random_layout(some_tensors(), 1 + random() % 5, random);
    expect_step(files, 40, read);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(Checkpoint, TheManifestNamesEachElementOnce) {
  std::mt19937 random(1);
  MemoryFiles files;
  save(files, random_layout(some_tensors(), 3, random), 8, 0);
  const Manifest manifest = read_manifest(files, step_path(kDirectory, 8));
  std::size_t elements = 0;
  for (const Shard& shard : manifest.shards) elements += elements_of(shard.pieces);
  EXPECT_EQ(elements, 7u * 5 + 11 + 12 * 4 + 4 * 9);
  EXPECT_EQ(files.list(step_path(kDirectory, 8)),
            (std::vector<std::string>{"manifest", "rank-0.f32", "rank-1.f32", "rank-2.f32"}));
}

/// Damages a checkpoint in many ways. Each must be rejected, in a sentence that names the file.
class Damaged : public testing::Test {
 protected:
  Damaged() {
    std::mt19937 random(3);
    layout_ = random_layout(some_tensors(), 2, random);
    save(files_, layout_, 1, 0);
  }
  void expect_refused(const std::string& names, const std::string& says) {
    const std::string text = refusal([this] {
      const std::string path = step_path(kDirectory, 1);
      const Manifest manifest = read_manifest(files_, path);
      for (const auto& runs : layout_) {
        Share share{pieces_of(some_tensors(), runs), {}};
        read_share(files_, path, manifest, elements_of(runs), share);
      }
    });
    EXPECT_NE(text.find(names), text.npos) << text << "\nlacks " << names;
    EXPECT_NE(text.find(says), text.npos) << text << "\nlacks " << says;
  }
  std::string& contents(const std::string& name) { return files_.contents(step_path(kDirectory, 1) + "/" + name); }

  MemoryFiles files_;
  Layout layout_;
};

TEST_F(Damaged, AnAlteredByteAnywhere) {
  for (const std::string name : {"rank-0.f32", "rank-1.f32", "manifest"})
    for (std::size_t i = 0; i < contents(name).size(); ++i) {
      contents(name)[i] = static_cast<char>(contents(name)[i] ^ (1 << (i % 8)));
      expect_refused(name == "manifest" ? "its manifest" : "/" + name, name == "manifest" ? "" : "was altered");
      contents(name)[i] = static_cast<char>(contents(name)[i] ^ (1 << (i % 8)));
      ASSERT_FALSE(HasFailure()) << name << ", byte " << i;
    }
}

TEST_F(Damaged, AFileThatIsCutShortAnywhereOrLonger) {
  for (const std::string name : {"rank-1.f32", "manifest"}) {
    const std::string whole = contents(name);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      contents(name) = whole.substr(0, length);
      expect_refused(name == "manifest" ? "its manifest" : "/rank-1.f32", name == "manifest" ? "" : "cut short");
      ASSERT_FALSE(HasFailure()) << name << ", " << length << " bytes";
    }
    contents(name) = whole + "x";
    expect_refused(name == "manifest" ? "its manifest" : "/rank-1.f32", "");
    contents(name) = whole;
  }
}

TEST_F(Damaged, AMissingFile) {
  files_.remove(step_path(kDirectory, 1) + "/rank-1.f32");
  expect_refused("/rank-1.f32", "is missing");
  files_.remove(manifest_path(step_path(kDirectory, 1)));
  expect_refused("/manifest", "is missing");
}

TEST_F(Damaged, AManifestWithARightChecksumThatMakesNoSense) {
  const std::string path = step_path(kDirectory, 1);
  const Manifest good = read_manifest(files_, path);
  const auto expect = [&](const std::string& says, const std::function<void(Manifest&)>& spoil) {
    Manifest bad = good;
    spoil(bad);
    contents("manifest") = manifest_text(bad);
    expect_refused("", says);
  };
  expect("does not fit", [](Manifest& m) { m.shards[0].pieces[0].rows += 100; });
  expect("does not fit", [](Manifest& m) { m.shards[0].pieces[0].column = static_cast<std::size_t>(-1); });
  expect("does not fit", [](Manifest& m) { m.shards[1].pieces[0].tensor = 4; });
  expect("does not fit", [](Manifest& m) { m.shards[1].pieces[0].at = m.shards[1].elements; });
  expect("/x", [](Manifest& m) { m.shards[1].file = "../x"; });
  expect("lacks", [](Manifest& m) { m.shards[1].pieces.pop_back(); });
  expect("cut short", [](Manifest& m) { m.shards[1].elements += 1; });
}

}  // namespace
}  // namespace lockstep::checkpoint
