// The changes of a source that change its hash.

#include <gtest/gtest.h>

#include <filesystem>

#include "common/file.h"
#include "common/text.h"
#include "tools/source_hashes/tokens.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

struct Pair {
  const char *name, *first, *second;
};

TEST(SourceTokens, AreEqualWhereOnlyCommentsWhiteSpaceAndSplicesDiffer) {
  const Pair pairs[] = {
      {"line comment", "int a;  // of\nint b;", "int a; int b;"},
      {"line comment at the end of the file", "int a; // of", "int a;"},
      {"line comment continued by a splice", "int a; // of \\\n b; \nint c;", "int a; int c;"},
      {"comment begun across a splice", "int a; /\\\n/ of\nint c;", "int a; int c;"},
      {"block comment", "f(/* count */ 3);", "f(3);"},
      {"block comment over lines", "int /* a\n\" ' R\"( b */ c;", "int c;"},
      {"block comment that ends across a splice", "int /* a *\\\n/ c;", "int c;"},
      {"comment between two words", "int/**/a;", "int a;"},
      {"unterminated comment", "int a; /* of", "int a;"},
      {"quotes in a comment", "int a; // don't \"\nint b;", "int a; int b;"},
      {"token on another line", "return a +\n    b;", "return a\n    + b;"},
      {"indentation and line ends", "if (a)\r\n\tb ( ) ;\f\v", "if(a) b();"},
      {"no newline at the end", "int a;\n", "int a;"},
      {"spliced word", "in\\\nt a;", "int a;"},
      {"spliced operator", "a +\\\n= b;", "a += b;"},
      {"splice with blanks behind the backslash", "in\\ \t\r\nt a;", "int a;"},
      {"spliced string", "f(\"a\\\nb\");", "f(\"ab\");"},
      {"spliced directive", "#define A \\\n  B\n", "#define A B\n"},
      {"indented directive", "  #  define A   B\n", "#define A B\n"},
      {"comment before a directive", "/* a */ #define A B\n", "#define A B\n"},
      {"comment behind a directive", "#define A B  // c\nd", "#define A B\nd"},
      {"block comment in a directive", "#define A /* b\n c */ B\n", "#define A B\n"},
      {"empty lines between directives", "#if A\n\n\n#endif\n\n", "#if A\n#endif"},
      {"code between directives", "#if A\nb\nc\n#endif", "#if A\nb c\n#endif"},
      {"parameters of a macro", "#define F(a,b) a\n", "#define F( a, b )  a\n"},
      {"space behind #include", "#include   <vector>\n", "#include <vector>\n"},
  };
  for (const Pair& p : pairs) EXPECT_EQ(token_text(p.first), token_text(p.second)) << p.name;
}

TEST(SourceTokens, DifferWhereTheCompilerSeesADifference) {
  const Pair pairs[] = {
      {"number", "f(3);", "f(4);"},
      {"word", "int a;", "int b;"},
      {"case", "int a;", "int A;"},
      {"order", "a b", "b a"},
      {"word split", "int ab;", "int a b;"},
      {"operator split", "a ++ + b", "a + ++ b"},
      {"operator split in two", "a - -b", "a --b"},
      {"comment inside an operator", "a +/**/= b", "a += b"},
      {"scope split", "a ::b", "a : :b"},
      {"launch split", "f<<<1, 2>>>()", "f<< <1, 2>>>()"},
      {"digit separator", "1'000", "1000"},
      {"number split by a space", "1 000", "1000"},
      {"sign of an exponent", "1e+5", "1e +5"},
      {"space in a string", "\"a b\"", "\"a  b\""},
      {"comment in a string", "\"a /* b */\"", "\"a \""},
      {"line comment in a string", "\"http://a\"", "\"http://b\""},
      {"string behind an escaped quote", "\"\\\" // a\"", "\"\\\" // b\""},
      {"string behind an escaped backslash", "\"\\\\\" \"a\"", "\"\\\\\" \"b\""},
      {"joined strings", "\"a\" \"b\"", "\"ab\""},
      {"prefix of a string", "u8\"a\"", "\"a\""},
      {"prefix split", "u8 \"a\"", "u8\"a\""},
      {"suffix split", "\"a\"sv", "\"a\" sv"},
      {"character", "'\"' 'a'", "'\"' 'b'"},
      {"escaped quote character", "'\\'' a", "'\\'' b"},
      {"separators around a comment", "1'0'0 // a\nb", "1'0'0 b c"},
      {"space in a raw string", "R\"(a b)\"", "R\"(a  b)\""},
      {"line in a raw string", "R\"(a\nb)\"", "R\"(a b)\""},
      {"comment in a raw string", "R\"(a // b\n)\"", "R\"(a \n)\""},
      {"splice in a raw string", "R\"(a\\\nb)\"", "R\"(ab)\""},
      {"delimited raw string", "R\"x(a)\" /* b */)x\"", "R\"x(a)\")x\""},
      {"prefixed raw string", "u8R\"(\" // a)\"", "u8R\"(\" // b)\""},
      {"word that only ends like a prefix", "MACRO_R\"( // a\"", "MACRO_R\"( // b\""},
      {"directive split over lines", "#define A B\n", "#define A\nB\n"},
      {"directive joined with code", "#define A\nB\n", "#define A B"},
      {"code joined with a directive", "a #define B\n", "a\n#define B\n"},
      {"directive behind a comment over lines", "a /*\n*/ #b\n", "a\n#b\n"},
      {"two directives joined", "#if A\n#if B\n", "#if A #if B\n"},
      {"function-like macro", "#define F(a) b\n", "#define F (a) b\n"},
      {"macro with a comment before its parenthesis", "#define F(a) b\n", "#define F/**/(a) b\n"},
      {"header", "#include <a//b>\n", "#include <a//c>\n"},
      {"word behind an apostrophe in a directive", "#error don't a\n", "#error don't b\n"},
      {"code behind an apostrophe in a directive", "#error don't\na", "#error don't\nb"},
  };
  for (const Pair& p : pairs) EXPECT_NE(token_text(p.first), token_text(p.second)) << p.name;
}

TEST(SourceTokens, TextHasOneSpaceBetweenTokensAndALineForEachDirective) {
  EXPECT_EQ(token_text("int  a=1'000;// one\n  #define F(x) \\\n x+1\nreturn f(u8\"a//b\"s);\n"),
            "int a = 1'000 ;\n# define F( x ) x + 1\nreturn f ( u8\"a//b\"s ) ;");
  EXPECT_EQ(token_text(""), "");
  EXPECT_EQ(token_text("\\\n"), "");
  EXPECT_EQ(token_text("\""), "\"\n");
  EXPECT_EQ(token_text("'\\"), "'\\\n");
  EXPECT_EQ(token_text("R\"(a"), "R\"(a");
}

/// Calls `check` for each source that has a hash, or is in the same folder as one.
void for_each_source(const std::function<void(const std::string&, const std::string&)>& check) {
  const fs::path root = TURNBENCH_SOURCE_DIR;
  for (const char* folder : {"common", "datasets", "harness", "inference", "methods", "metrics",
                             "probes", "tests/harness/store"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (extension == ".h" || extension == ".cpp" || extension == ".cu")
        check(fs::relative(entry.path(), root), read_file(entry.path()));
    }
  }
}

TEST(SourceTokens, AreEqualAfterPrintingAndReadingAgain) {
  std::size_t files = 0;
  for_each_source([&](const std::string& file, const std::string& text) {
    const std::string tokens = token_text(text);
    EXPECT_EQ(token_text(tokens), tokens) << file;
    ++files;
  });
  EXPECT_GT(files, 300u);
}

TEST(SourceTokens, SourcesUseNoMacrosThatDependOnLines) {
  // Values that would change with a comment or a line end: the line, and the text of a macro's
  // argument.
  for_each_source([](const std::string& file, const std::string& text) {
    if (file.starts_with("tests/")) return;
    for (const std::string& line : split(token_text(text), "\n")) {
      for (const char* word : {" __LINE__ ", " source_location ", " __COUNTER__ "})
        EXPECT_EQ((" " + line + " ").find(word), std::string::npos) << file << ":" << word;
      EXPECT_FALSE(line.starts_with("# define ") && line.find(" # ") != std::string::npos)
          << file << ": turns an argument into text: " << line;
    }
  });
}

}  // namespace
}  // namespace turnbench
