package constraint

import (
	"strings"
	"testing"
)

func matchesPattern(t *testing.T, source, text string) bool {
	t.Helper()
	p, err := compilePattern(source, 0, source)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return p.matches(text)
}

// Each row has a pattern, what it matches as a whole, and what it does not, separated by blanks (␣
// for a blank itself).
func TestPatterns(t *testing.T) {
	for _, c := range []struct{ source, yes, no string }{
		{"t2.*", "t2.small t2 t2x", "t3.small xt2 T2.small"},
		{"t2[.].*", "t2.small", "t2 t2x"},
		{`t2\.*`, "t2 t2. t2..", "t2x"},
		{`t2\..*`, "t2. t2.small", "t2x"},
		{"t2", "t2", "t2.small at2"},
		{".*", "a ␣ t2", ""},
		{".*small", "t2.small small", "t2.smalls"},
		{"(p[2,3]|g[3,4]|f[1]).*", "p2.xlarge g4dn.xlarge f1 p,", "p4.xlarge t2"},
		{"a|b", "a b", "ab c"},
		{"a|bc", "a bc", "abc ac"},
		{"^a$", "a", "aa"},
		{`\Aa\z`, "a", "b"},
		{"(?i)T2.*", "t2.small T2.small", "t3"},
		{"(?i:t)2", "t2 T2", "t3"},
		{"(?iu)é", "é É", "e"},
		{"(?u)a", "a", "A"},
		{"a(?-i)b", "ab", "aB"},
		{"(?s).", "\n", "ab"},
		{"(?m)a", "a", "b"},
		{".x", "ax", "\nx \rx \u2028x"},
		{"(?s:.)x|.y", "\nx ay", "\ny"},
		{"((?s).)x.", "\nxa", "\nx\n"},
		{"(?s)(?-s:.)x.", "ax\n", "\nx\n"},
		{"a{2}b{1,}c{0,1}", "aab aabbc", "ab aabcc"},
		{"a+?b*?c??", "a aab abc", "b"},
		{"(?<name>a)b", "ab", "b"},
		{"(?:ab)+", "ab abab", "aba"},
		{`\d+`, "12", "1a ٣"},
		{`\D\W`, "a- -.", "1- aa"},
		{`\w+`, "a_1Z", "a-b é"},
		{`[\w.]+`, "a.b", "a-b"},
		{`\s\S`, "\ta \va ␣x", "aa a␣"},
		{`[\s]`, "\v ␣", "a"},
		{`[^\S]`, "\v ␣", "a"},
		{`\h\H`, "\u00a0a \u3000a", "aa \na"},
		{`\v\V`, "\na \u2028a", "aa ␣a"},
		{`[\h\d]`, "\u2003 7", "a \n"},
		{`[\V]`, "a ␣", "\n \u0085"},
		{`\R`, "\r\n \n \u2029", "a \n\n"},
		{`\x41\u0042\x{43}\0104\t\e\cA`, "ABCD\t\x1b\x01", "ABCD"},
		{`\07\012\0377`, "\a\n\u00ff", "7"},
		{`[\x41-\x43]`, "A B C", "D -"},
		{`\Qa.b*\Ec`, "a.b*c", "axbc"},
		{`\Qa.b`, "a.b", "axb"},
		{`[\Qa-c\E]`, "a - c", "b"},
		{`[a\-c]`, "a - c", "b"},
		{`[-a]`, "- a", "b"},
		{`[a-]`, "- a", "b"},
		{`[]a]`, "] a", "b"},
		{`[^]a]`, "b", "] a"},
		{`[a^]`, "a ^", "b"},
		{`[a&b]`, "a & b", "c"},
		{`[.$*]`, ". $ *", "a"},
		{`[\]\[]`, "] [", `\`},
		{`a-b\-c`, "a-b-c", "abc"},
		{`\.\*\\\/\_\@\#\é`, `.*\/_@#é`, "x"},
		{`]}`, "]}", "]"},
		{`\p{Lower}+\P{Lower}`, "abC", "ABC abc"},
		{`[\p{Alpha}\p{Digit}_]+`, "a1_Z", "é"},
		{`[^\P{Upper}]`, "A", "a"},
		{`\p{Alnum}\p{Punct}\p{XDigit}\p{Graph}\p{Print}\p{Upper}\p{ASCII}`, "a-fx␣Ay", "a-gx␣Ay"},
		{`\p{Blank}\p{Space}\p{Cntrl}`, "\t\v\x00", "aaa"},
		{`\p{L}\pN\p{Lu}\PL`, "é1É1", "1111"},
		{`\p{IsLu}\p{gc=Ll}\p{general_category=Nd}`, "Éé3", "éé3"},
		{`\p{IsLatin}\p{script=Greek}\p{sc=cyrillic}`, "aαж", "ααα"},
		{`[\p{IsGreek}a]`, "α a", "b"},
		{`\bfoo\b.\Bx?`, "foo-", "foox"},
	} {
		for _, side := range []struct {
			texts string
			want  bool
		}{{c.yes, true}, {c.no, false}} {
			if side.texts == "" {
				continue
			}
			for _, text := range strings.Split(side.texts, " ") {
				text = strings.ReplaceAll(text, "␣", " ")
				if got := matchesPattern(t, c.source, text); got != side.want {
					t.Errorf("%s on %q: %v", c.source, text, got)
				}
			}
		}
	}
}

// What Java has and Go does not is refused by name, with its position.
func TestUnsupportedPatterns(t *testing.T) {
	for _, c := range []struct {
		source   string
		column   int
		expected string
	}{
		{"a(?=b)", 2, "look-ahead"}, {"a(?!b)", 2, "look-ahead"}, {"(?<=a)b", 1, "look-behind"},
		{"(?<!a)b", 1, "look-behind"}, {"(?>ab)", 1, "atomic groups"},
		{"a*+", 2, "possessive quantifiers"}, {"a++", 2, "possessive quantifiers"},
		{"a?+", 2, "possessive quantifiers"}, {"a{1,2}+", 2, "possessive quantifiers"},
		{`(a)\1`, 4, "back-references"}, {`(?<n>a)\k<n>`, 8, "back-references"}, {`a\Z`, 2, `\Z`}, {`\Ga`, 1, `\G`},
		{`\X`, 1, `\X`}, {`\N{DIGIT ONE}`, 1, `\N`},
		{`a\b{g}`, 2, `\b{g}`}, {`\p{javaLowerCase}`, 1, `\p{javaLowerCase}`},
		{`[a\p{javaMirrored}]`, 3, `\p{javaMirrored}`}, {`\P{InGreek}`, 1, `\P{InGreek}`},
		{`\p{IsAlphabetic}`, 1, `\p{IsAlphabetic}`}, {`\p{block=Greek}`, 1, `\p{block=Greek}`},
		{`\p{Nope}`, 1, `\p{Nope}`}, {`\p{gc=Greek}`, 1, `\p{gc=Greek}`},
		{`\p`, 1, `an incomplete \p`}, {`\p{L`, 1, `an incomplete \p`}, {`\pl`, 1, `an incomplete \p`},
		{`\p{Latin}`, 1, `\p{Latin}`},
		{"(?x)a", 1, "COMMENTS"}, {"(?d)a", 1, "UNIX_LINES"}, {"(?U:a)", 1, "UNICODE_CHARACTER_CLASS"},
		{"(?i-x)a", 1, "COMMENTS"}, {"(?q)a", 1, "unknown flag q"},
		{"[a-c&&[b]]", 5, "intersections"}, {"[a[b]]", 3, "classes within classes"},
		{"[[:alpha:]]", 2, "classes within classes"}, {`[\s-a]`, 2, "a range that begins with a class"},
		{`[\d-z]`, 2, "a range that begins with a class"}, {"[a", 1, "a ] for each ["}, {"x[]", 2, "a ] for each ["},
		{"a{", 2, "a brace that is no repetition"}, {"a{,2}", 2, "a brace that is no repetition"},
		{"{a}", 1, "a brace that is no repetition"},
		{`\y`, 1, `the unknown \y`}, {`a\E`, 2, `the unknown \E`}, {`[\b]`, 2, `the unknown \b`},
		{`\8`, 1, "back-references"},
		{`\0`, 1, `an incomplete \0`}, {`\08`, 1, `an incomplete \0`}, {`\x4`, 1, `an incomplete \x`},
		{`\u004`, 1, `an incomplete \u`}, {`\ud800`, 1, `an incomplete \u`},
		{`\x{110000}`, 1, `an incomplete \x`}, {`\c`, 1, `an incomplete \c`}, {`a\`, 2, `a character after \`},
		{`[\`, 2, `a character after \`},
		{"(?<1>a)", 1, "a known kind of group"}, {"(?", 1, "a known kind of group"},
		{"(?P<n>a)", 1, "a known kind of group"}, {"(?#x)", 1, "a known kind of group"},
		{"(a", 1, "missing closing )"}, {")(?:a", 1, "unexpected )"}, {"a(?i)*", 6, "a repetition of flags"},
		{"*a", 1, "missing argument to repetition operator"}, {"a**", 1, "invalid nested repetition operator"},
		{"[z-a]", 1, "invalid character class range"},
		{"a{1001}", 1, "invalid repeat count"}, {"(a{1000}){1000}", 1, "invalid repeat count"},
		{strings.Repeat("a{1000}", 5), 1, "at most 5000 parts"},
	} {
		_, err := compilePattern(c.source, 0, c.source)
		refused(t, c.source, err, c.column, c.expected)
		// within a query the position is that in the query
		text := `attribute:ä == x or attribute:a =~ "` + c.source + `"`
		if !strings.Contains(c.source, `"`) {
			text = strings.Replace(text, "ä", "b", 1)
			_, err = ParseQuery(text)
			refused(t, text, err, c.column+len(`attribute:b == x or attribute:a =~ "`), c.expected)
		}
	}
	_, err := ParseQuery("attribute:a =~ t2(?!x) and attribute:b exists")
	if want := `column 18: expected a regular expression without look-ahead, found "(?!x)"`; err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A pattern of text and .* is not compiled, and matches as if it were.
func TestPlainPatternsMatchLikeCompiledOnes(t *testing.T) {
	for _, source := range []string{"t2.*", `t2\..*`, ".*", "a b.*", "é.*", "/x:@#-_.*"} {
		p, err := compilePattern(source, 0, source)
		if err != nil || !p.simple {
			t.Errorf("%s: not recognized (%v)", source, err)
			continue
		}
		for _, text := range []string{"", "t", "t2", "t2.", "t2.small", "t2\n", "t2.\nx", "t2\u2028", "a bc", "éa",
			"/x:@#-_y", "\n"} {
			if p.matches(text) != p.regexp.MatchString(text) {
				t.Errorf("%s on %q: %v", source, text, p.matches(text))
			}
		}
	}
	for _, source := range []string{`t2\.*`, "t2|x.*", "[ab].*", "t.2.*", `a\\..*`, "a+.*", "(a).*", `\d.*`} {
		if p, err := compilePattern(source, 0, source); err != nil || p.simple {
			t.Errorf("%s: taken for plain (%v)", source, err)
		}
	}
}
