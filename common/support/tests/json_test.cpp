// JSON: reading, error messages, and writing such that it can be read back.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "common/support/json/document.hpp"
#include "common/support/json/escape.hpp"

namespace lockstep {
namespace {

TEST(JsonDocument, IsReadAsItStands) {
  const Json json = Json::parse(R"({"text": "α\n\u00e9", "list": [1, -2, 2.5, 1e-06], "yes": true, "no": null})");
  EXPECT_EQ(json.at("text"), "α\né");
  EXPECT_EQ(json.at("list")[1].get<int>(), -2);
  EXPECT_EQ(json.at("list").get<std::vector<double>>(), (std::vector<double>{1, -2, 2.5, 1e-6}));
  EXPECT_GT(json.at("list")[2], 2);
  EXPECT_EQ(json.value("yes", false), true);
  EXPECT_EQ(json.value("absent", 7), 7);
  EXPECT_TRUE(json.at("no").is_null());
  EXPECT_EQ(json.items()[0].name, "text");
  EXPECT_EQ(json.dump(), "{\"text\":\"α\\né\",\"list\":[1,-2,2.5,1e-06],\"yes\":true,\"no\":null}");
  EXPECT_EQ(Json::parse(json.dump()), json);
  EXPECT_EQ(Json::parse(R"({"b": 1, "a": 2})"), Json::parse(R"({"a": 2, "b": 1})"));
  EXPECT_FALSE(Json::parse("1") == Json::parse("true"));
}

TEST(JsonDocument, AWrongQuestionIsAnError) {
  const Json json = Json::parse(R"({"list": [1], "text": "x"})");
  EXPECT_THROW(json.at("absent"), JsonError);
  EXPECT_THROW(json.at("list").at(1), JsonError);
  EXPECT_THROW(json.at("list").at("name"), JsonError);
  EXPECT_THROW(json.at("text").get<int>(), JsonError);
  EXPECT_THROW(json.at("text").begin(), JsonError);
  EXPECT_THROW(json.at("list").items(), JsonError);
  EXPECT_THROW(json.at("list")[0].get<bool>(), JsonError);
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "1 2", "\"\xff\"", "// no\n1"})
    EXPECT_THROW(Json::parse(text), JsonError) << text;
  EXPECT_FALSE(Json::parse_if_valid("[1,]"));
  EXPECT_EQ(Json::parse_if_valid("[1] // one").value(), Json::parse("[1]"));
}

std::string json_error(const std::function<void()>& wrong) {
  try {
    wrong();
  } catch (const JsonError& error) {
    return error.what();
  }
  return "";
}

TEST(JsonDocument, AMemberThatIsThereTwiceIsNamedWithItsPlace) {
  EXPECT_EQ(json_error([] { Json::parse("{\"a\": 1,\n \"b\": {\"c\": 2, \"c\": 3}}"); }),
            "parse error at line 2, column 18: \"c\" occurs twice");
  std::string many = "{";
  for (int i = 0; i < 100; ++i) many += "\"x" + std::to_string(i) + "\": 0, ";
  EXPECT_EQ(Json::parse(many + "\"y\": 1}").size(), 101u);
  EXPECT_NE(json_error([&] { Json::parse(many + "\"x99\": 1}"); }), "");
  EXPECT_NE(json_error([&] { Json::parse(many + "\"x0\": 1}"); }), "");
  EXPECT_EQ(Json::parse(R"([{"a": 1}, {"a": 1}])").size(), 2u);
}

TEST(JsonDocument, NestingHasALimit) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(Json::parse(nested(Json::kMostNested)).size(), 1u);
  EXPECT_EQ(json_error([&] { Json::parse(nested(60'000)); }),
            "parse error at line 1, column 101: lists and objects are nested more than 100 deep");
  EXPECT_FALSE(Json::parse_if_valid(nested(60'000)));
}

TEST(JsonDocument, AWholeNumberIsReadWholeOrNotAtAll) {
  const auto as_int = [](const char* text) { return Json::parse(text).get<int>(); };
  EXPECT_EQ(as_int("-2147483648"), std::numeric_limits<int>::min());
  EXPECT_EQ(as_int("1e3"), 1000);
  EXPECT_EQ(Json::parse("18446744073709551615").get<std::uint64_t>(), 18446744073709551615u);
  for (const char* text : {"2147483648", "4294967296", "-2147483649", "1.5", "1e30", "-1e30", "18446744073709551615"})
    EXPECT_EQ(json_error([&] { as_int(text); }),
              Json::parse(text).dump() + " is not a whole number from -2147483648 to 2147483647");
  EXPECT_NE(json_error([] { (void)Json::parse("-1").get<unsigned>(); }), "");
  EXPECT_NE(json_error([] { (void)Json::parse("18446744073709551616").get<std::uint64_t>(); }), "");
  EXPECT_LT(json_error([] { (void)Json::parse("\"" + std::string(1000, 'x') + "\"").get<int>(); }).size(), 100u);
}

TEST(JsonDocument, ALargeListIsTakenOneAtATime) {
  const std::string text = R"({"events": [{"n": 1}, {"n": 2, "in": {"n": 9}}, 5], "other": {"n": 7}})";
  std::vector<int> taken;
  const Json rest = Json::parse(text, 2, [&](const Json& event) { taken.push_back(event.at("n")); });
  EXPECT_EQ(taken, (std::vector<int>{1, 2}));
  EXPECT_EQ(rest, Json::parse(R"({"events": [5], "other": {"n": 7}})"));
}

TEST(JsonDocument, WhatIsWrittenIsReadBack) {
  const Json document =
      Json::object({{"name", Json::of("a \"b\"\n\xff")},
                    {"whole", Json::list({Json::of(-3), Json::of(std::uint64_t{18446744073709551615u}), Json::of(0)})},
                    {"real", Json::list({Json::of(0.1), Json::of(2.0), Json::of(-1e300), Json::of(std::nan(""))})},
                    {"truth", Json::of(true)},
                    {"none", Json::object({})},
                    {"in", Json::object({{"empty", Json::list({})}, {"null", Json()}})}});
  EXPECT_EQ(document.dump(),
            "{\"name\":\"a \\\"b\\\"\\n\uFFFD\",\"whole\":[-3,18446744073709551615,0],\"real\":[0.1,2.0,-1e+300,null],"
            "\"truth\":true,\"none\":{},\"in\":{\"empty\":[],\"null\":null}}");
  EXPECT_EQ(document.at("in").dump(2), "{\n  \"empty\": [],\n  \"null\": null\n}");
  const Json again = Json::parse(document.dump(1));
  EXPECT_EQ(again.dump(), document.dump());
  EXPECT_EQ(again.at("whole").at(1).get<std::uint64_t>(), 18446744073709551615u);
}

TEST(JsonText, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(utf8("plain, α, €, 😀"), "plain, α, €, 😀");
  EXPECT_EQ(utf8("a\xff b"), "a\uFFFD b");
  EXPECT_EQ(utf8("\xc0\xaf"), "\uFFFD\uFFFD");                 // not the shortest form
  EXPECT_EQ(utf8("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");       // a surrogate
  EXPECT_EQ(utf8("\xf4\x90\x80\x80").substr(0, 3), "\uFFFD");  // above U+10FFFF
  EXPECT_EQ(utf8("cut \xe2\x82"), "cut \uFFFD\uFFFD");
  std::string any;
  for (int byte = 0; byte < 256; ++byte) any += {static_cast<char>(byte), static_cast<char>(255 - byte), 'x'};
  EXPECT_EQ(Json::parse(lockstep::quoted(utf8(any))), utf8(any));
}

}  // namespace
}  // namespace lockstep
