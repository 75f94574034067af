#include "datasets/vocabulary.h"

namespace turnbench::vocabulary {
namespace {

using Word = std::string_view;

// No adjective ends with another and no noun begins with another: of two distinct compounds
// ADJECTIVE-NOUN neither is part of the other.
constexpr Word kAdjectives[] = {
    "able",    "ancient", "bitter", "bold",    "brave",   "brief",  "bright",  "broad",  "calm",
    "careful", "cheap",   "clever", "coarse",  "common",  "crisp",  "curious", "damp",   "deep",
    "distant", "dusty",   "eager",  "early",   "empty",   "faint",  "famous",  "fierce", "firm",
    "formal",  "fresh",   "gentle", "grand",   "heavy",   "hollow", "hungry",  "humble", "idle",
    "jolly",   "keen",    "lively", "lonely",  "long",    "loud",   "lucky",   "mild",   "modest",
    "narrow",  "noble",   "odd",    "patient", "plain",   "polite", "proud",   "quiet",  "rapid",
    "rough",   "royal",   "rusty",  "secret",  "shallow", "sharp",  "silent",  "simple", "sleepy",
    "slender", "smooth",  "solid",  "steady",  "steep",   "stern",  "subtle",  "sudden", "tender",
    "thick",   "timid",   "vivid",  "warm",    "weary",   "wicked", "worn",    "young"};
constexpr Word kNouns[] = {
    "acorn",   "anchor",  "apron",    "arrow",  "badge",    "banjo",   "barrel",  "basket",
    "beacon",  "blanket", "bottle",   "bucket", "button",   "cabin",   "candle",  "canoe",
    "carpet",  "castle",  "chimney",  "circle", "cloud",    "cottage", "cradle",  "cricket",
    "curtain", "desert",  "donkey",   "drawer", "engine",   "falcon",  "feather", "fence",
    "ferry",   "fiddle",  "flute",    "forest", "fountain", "garlic",  "glacier", "goose",
    "hammer",  "harvest", "hedge",    "helmet", "island",   "jacket",  "kettle",  "kitten",
    "ladder",  "lantern", "lemon",    "magnet", "meadow",   "mirror",  "mitten",  "needle",
    "oyster",  "paddle",  "parrot",   "pebble", "pencil",   "pigeon",  "pillow",  "pocket",
    "puzzle",  "rabbit",  "ribbon",   "river",  "rocket",   "saddle",  "shadow",  "shovel",
    "signal",  "spider",  "stocking", "summit", "tailor",   "teapot",  "temple",  "thimble",
    "thunder", "ticket",  "timber",   "tunnel", "turnip",   "valley",  "velvet",  "village",
    "violin",  "wagon",   "walnut",   "willow", "window",   "winter",  "wizard",  "zebra"};
constexpr Word kRoles[] = {"gardener",  "baker",    "clerk",   "teacher",      "carpenter",
                           "painter",   "postman",  "farmer",  "nurse",        "printer",
                           "musician",  "driver",   "builder", "cook",         "student",
                           "fisherman", "weaver",   "judge",   "potter",       "shepherd",
                           "barber",    "surveyor", "porter",  "tax collector"};
constexpr Word kSites[] = {"market square", "old bridge",     "railway station", "public park",
                           "river bank",    "village school", "corner bakery",   "theatre",
                           "post office",   "town hall",      "bus stop",        "long avenue",
                           "sports ground", "city museum",    "small hotel",     "coffee house",
                           "ferry landing", "wood yard",      "orchard",         "football pitch"};
constexpr Word kTopics[] = {"the price of flour",      "the coming winter",
                            "an unfinished letter",    "a clock that ran slow",
                            "the last harvest",        "a journey to the coast",
                            "the noise of the street", "an old quarrel",
                            "the rules of the game",   "a song from childhood",
                            "the shape of the clouds", "a recipe for onion soup",
                            "the history of the town", "a play that nobody had seen",
                            "the habits of birds",     "a neighbour who had moved away",
                            "the cost of a new roof",  "a long chapter about trade",
                            "the state of the roads",  "a holiday by the lake"};
constexpr Word kActivities[] = {"mending a fence",      "reading the newspaper",
                                "sweeping the steps",   "waiting for the rain to stop",
                                "counting the boats",   "peeling potatoes",
                                "writing a long list",  "tuning an instrument",
                                "feeding the ducks",    "polishing a pair of boots",
                                "drawing a map",        "carrying boxes up the stairs",
                                "watching the trains",  "planting beans in straight rows",
                                "folding clean shirts", "repairing a bicycle"};
constexpr Word kAdverbs[] = {"slowly", "quietly",   "patiently", "carefully", "gladly",  "suddenly",
                             "rarely", "willingly", "politely",  "calmly",    "proudly", "hastily"};
constexpr Word kMaterials[] = {"marble",  "copper", "ivory",  "bronze",      "granite", "amber",
                               "crystal", "jade",   "silver", "walnut-wood", "pewter",  "ebony",
                               "coral",   "slate",  "brass",  "porcelain"};
constexpr Word kObjects[] = {"compass",   "statue",   "telescope", "chess set", "goblet",
                             "hourglass", "globe",    "harp",      "crown",     "music box",
                             "inkwell",   "sundial",  "medal",     "dagger",    "snuffbox",
                             "bracelet",  "figurine", "sceptre",   "vase",      "chalice",
                             "abacus",    "pendant",  "barometer", "trophy",    "urn"};
constexpr Word kPeople[] = {"Ines",   "Tobias", "Marit",  "Oskar",  "Leila",  "Anton",  "Freya",
                            "Bruno",  "Selma",  "Kasper", "Nadia",  "Viggo",  "Amira",  "Stefan",
                            "Greta",  "Marek",  "Yusuf",  "Elin",   "Pavel",  "Dagmar", "Ruben",
                            "Silke",  "Hugo",   "Zofia",  "Emre",   "Tilda",  "Jonas",  "Carmen",
                            "Ulrich", "Noor",   "Felix",  "Agnes",  "Milan",  "Petra",  "Sven",
                            "Lidia",  "Gustav", "Rania",  "Henrik", "Olga",   "Dario",  "Birgit",
                            "Faisal", "Klara",  "Matteo", "Wanda",  "Rasmus", "Yara"};
constexpr Word kRooms[] = {
    "boathouse",   "attic",       "cellar",    "stable",       "greenhouse", "lighthouse",
    "chapel",      "pantry",      "armory",    "bell tower",   "library",    "workshop",
    "observatory", "laundry",     "dovecote",  "windmill",     "gatehouse",  "ballroom",
    "crypt",       "smokehouse",  "granary",   "wine vault",   "kennel",     "nursery",
    "print room",  "ice house",   "guardroom", "brewery",      "infirmary",  "treasury",
    "schoolroom",  "distillery",  "courtroom", "dairy",        "tannery",    "forge",
    "sawmill",     "sacristy",    "cloakroom", "scullery",     "aviary",     "refectory",
    "map room",    "coach house", "porch",     "conservatory", "vestibule",  "bakehouse"};

}  // namespace

std::span<const Word> adjectives() {
  return kAdjectives;
}
std::span<const Word> nouns() {
  return kNouns;
}
std::span<const Word> roles() {
  return kRoles;
}
std::span<const Word> sites() {
  return kSites;
}
std::span<const Word> topics() {
  return kTopics;
}
std::span<const Word> activities() {
  return kActivities;
}
std::span<const Word> adverbs() {
  return kAdverbs;
}
std::span<const Word> materials() {
  return kMaterials;
}
std::span<const Word> objects() {
  return kObjects;
}
std::span<const Word> people() {
  return kPeople;
}
std::span<const Word> rooms() {
  return kRooms;
}

}  // namespace turnbench::vocabulary
