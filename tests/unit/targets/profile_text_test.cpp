// Profiles as text: printed and parsed exactly; what is wrong is named with its line.
#include "targets/profile_text.h"

#include <gtest/gtest.h>

#include "epifuse/error.h"
#include "targets/profile_files.h"
#include "tests/unit/jit/environment.h"
#include "tests/unit/targets/reference_device.h"

namespace epifuse::targets {
namespace {

constexpr const char* kText =
    "epifuse device profile 2\n"
    "device A Card 80GB\n"
    "origin made up for a test\n"
    "sms 132\n"
    "clusters 66 39 30 15\n"
    "flops_per_us 700000000\n"
    "bytes_per_us 4000000.1\n"
    "l2_bytes_per_us 0\n"
    "start_us 4.2\n"
    "launch_us 2\n"
    "rows_first 0.15 128\n"
    "misaligned k_major aligned 2.2 2.7 4.9\n"
    "misaligned k_major k_major 3.3 2.75 5.2 2.5 1.25 0\n"
    "vendor_us 1 2048 4096 10.1\n"
    "vendor_us 64 768 3072 10.8\n"
    "bare_ratio 4096 4096 4096 0.99\n"
    "constant a_family feed_clocks 0.67\n"
    "end\n";

std::string with(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

std::string refusal(const std::string& text) {
  try {
    parse_profile(text);
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "";
}

TEST(ProfileText, IsPrintedAsItWasParsed) {
  const StoredProfile profile = parse_profile(kText);
  EXPECT_EQ(print(profile), kText);
  EXPECT_EQ(profile.device, "A Card 80GB");
  EXPECT_EQ(profile.limits.clusters_of_3, 39);
  EXPECT_EQ(profile.rates.bytes_per_us, 4000000.1);
  ASSERT_EQ(profile.vendor_us.size(), 2u);
  EXPECT_EQ(profile.vendor_us[0].k, 4096);
  EXPECT_EQ(profile.misaligned.at(0).vendor_odd, 4.9);
  EXPECT_EQ(profile.misaligned.at(0).another_8, 0);
  EXPECT_EQ(profile.misaligned.at(1).another_8, 2.5);
  EXPECT_EQ(profile.misaligned.at(1).another_4, 1.25);
  EXPECT_EQ(profile.rows_first.value().fewest_rows, 128);
  EXPECT_EQ(profile.constants.at(0).name, "feed_clocks");
}

TEST(ProfileText, EveryRowOfTheTableSurvives) {
  for (const KnownDevice& device : all_known_devices()) {
    const std::string text = print(copy_of(device));
    EXPECT_EQ(print(parse_profile(text)), text);
    EXPECT_EQ(parse_profile(text).vendor_us.size(), device.measured->vendor_us.size());
  }
}

TEST(ProfileText, ADeviceWithoutClustersHasOneOfEach) {
  StoredProfile profile = parse_profile(kText);
  profile.limits = {108};
  EXPECT_EQ(parse_profile(print(profile)).limits, (DeviceLimits{108, 1, 1, 1, 1}));
}

TEST(ProfileText, CommentsAndTheOrderOfLinesDoNotCount) {
  std::string text = with(kText, "sms 132\n", "");
  text = with(text, "launch_us 2\n", "# measured by hand\n\nlaunch_us 2\nsms 132\n");
  EXPECT_EQ(print(parse_profile(text)), kText);
}

TEST(ProfileText, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(refusal(with(kText, "profile 2", "profile 1")),
            "line 1: expected 'epifuse device profile 2', got 'epifuse device profile 1'");
  EXPECT_EQ(refusal(with(kText, "sms 132", "sms 0")),
            "line 4: expected an integer from 1 to 2^40, got '0'");
  EXPECT_EQ(refusal(with(kText, "66 39 30 15", "66 39 30")),
            "line 5: expected an integer from 1 to 2^40, got ''");
  EXPECT_EQ(refusal(with(kText, "66 39 30 15", "66 39 0 15")),
            "line 5: expected an integer from 1 to 2^40, got '0'");
  EXPECT_EQ(refusal(with(kText, "made up", "made\x1b[31m")),
            "line 3: expected text in UTF-8 without control characters, got "
            "'made\\x1b[31m for a test'");
  EXPECT_EQ(refusal(with(kText, "A Card", "A\xff")),
            "line 2: expected text in UTF-8 without control characters, got 'A\\xff 80GB'");
  EXPECT_EQ(refusal(with(kText, "700000000", "inf")),
            "line 6: expected a number above 0, got 'inf'");
  EXPECT_EQ(refusal(with(kText, "700000000", "nan")),
            "line 6: expected a number above 0, got 'nan'");
  EXPECT_EQ(refusal(with(kText, "700000000", "-1")), "line 6: expected a number above 0, got '-1'");
  EXPECT_EQ(refusal(with(kText, "launch_us 2", "launch_us 2 3")),
            "line 10: expected the end of the line, got '3'");
  EXPECT_EQ(refusal(with(kText, "k_major", "row")),
            "line 12: expected aligned, k_major or mn_major, got 'row'");
  EXPECT_EQ(refusal(with(kText, "launch_us", "launch")).substr(0, 40),
            "line 10: expected one of device, origin,");
  EXPECT_EQ(refusal(with(kText, "launch_us 2\n", "launch_us 2\nlaunch_us 3\n")),
            "line 11: expected launch_us, got 'it twice'");
}

TEST(ProfileText, HalfOfOneIsNone) {
  const std::string text(kText);
  for (std::size_t length = 0; length + 1 < text.size(); ++length) {
    EXPECT_NE(refusal(text.substr(0, length)), "") << length;
  }
  EXPECT_EQ(refusal(with(kText, "sms 132\n", "")), "expected a line 'sms ..', got none");
  EXPECT_EQ(refusal(with(kText, "end\n", "")),
            "expected 'end' as the last line, got none: it is not whole");
  EXPECT_EQ(refusal(text + "sms 1\n"), "line 19: expected nothing behind 'end', got 'sms 1'");
}

TEST(ProfileText, AConstantComesOnce) {
  const std::string twice =
      "constant sm90_dense launch_us 3\nconstant sm90_dense launch_us 4\nend\n";
  EXPECT_EQ(refusal(with(kText, "end\n", twice)),
            "line 19: expected each constant once, got 'launch_us'");
}

TEST(ProfileFiles, WhatIsStoredIsFoundByTheDevicesName) {
  const jit::TemporaryFolder folder;
  StoredProfile profile = parse_profile(kText);
  store_profile(folder.path(), profile);
  profile.device = "Another/../Card";
  store_profile(folder.path(), profile);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "a_card_80gb.profile"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "another____card.profile"));
  const StoredDevices devices(folder.path());
  const KnownDevice* found = devices.find("A Card 80GB");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->measured->limits.num_sms, 132);
  EXPECT_EQ(found->measured->vendor_us.size(), 2u);
  EXPECT_EQ(found->measured->constants[0].value, 0.67);
  EXPECT_EQ(print(copy_of(*found)), kText);
  EXPECT_EQ(devices.find("A Card"), nullptr);
  EXPECT_EQ(describe({found->measured->limits, {}, found}, "A Card 80GB"),
            "Expected times follow this machine's profile of A Card 80GB: made up for a test.");
}

TEST(ProfileFiles, AFolderIsTriedAndLeftAsItWas) {
  const jit::TemporaryFolder folder;
  check_profile_folder(folder.path() / "new");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "new"));
  check_profile_folder(folder.path());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THROW(check_profile_folder("/dev/null/profiles"), ArgumentError);
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  EXPECT_THROW(check_profile_folder(folder.path()), ArgumentError);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ProfileFiles, AFileThatIsNoProfileIsPassedOver) {
  const jit::TemporaryFolder folder;
  store_profile(folder.path(), parse_profile(kText));
  jit::write_text(folder.path() / "bad.profile", "epifuse device profile 2\nsms many\n");
  jit::write_text(folder.path() / "notes.txt", kText);
  testing::internal::CaptureStderr();
  const StoredDevices devices(folder.path());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("line 2: expected an integer"),
            std::string::npos);
  EXPECT_NE(devices.find("A Card 80GB"), nullptr);
  EXPECT_EQ(StoredDevices("/nowhere").find("A Card 80GB"), nullptr);
}

}  // namespace
}  // namespace epifuse::targets
