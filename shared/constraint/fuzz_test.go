package constraint

import (
	"errors"
	"testing"
)

// fuzzed checks what holds for any text: an error has a position within it; an expression has a
// value for every instance and prints as itself.
func fuzzed(t *testing.T, parse func(string) (*Expression, error), text string) {
	e, err := parse(text)
	if err != nil {
		s, ok := errors.AsType[*SyntaxError](err)
		if !ok || s.Position < 0 || s.Position > len(text) || s.Expected == "" {
			t.Fatalf("%q: %#v", text, err)
		}
		_ = err.Error()
		return
	}
	printed := e.String()
	again, err := parse(printed)
	if err != nil {
		t.Fatalf("%q prints as %q: %v", text, printed, err)
	}
	if again.String() != printed || again.Directives() != e.Directives() || again.Static() != e.Static() {
		t.Fatalf("%q prints as %q, which prints as %q", text, printed, again)
	}
	subjects := []Subject{
		&instance{}, fleet['a'], fleet['b'], fleet['c'],
		properties("a", "5", "b", "alpha", "FaultDomain", "fd:/DC0/Rack0", "NodeType", ""),
	}
	for _, s := range subjects {
		for _, primary := range []bool{false, true} {
			ok, err := e.Evaluate(s, primary)
			okAgain, errAgain := again.Evaluate(s, primary)
			if ok != okAgain || (err == nil) != (errAgain == nil) || err != nil && ok {
				t.Fatalf("%q is %v, %v and, printed as %q, %v, %v", text, ok, err, printed, okAgain, errAgain)
			}
		}
		if ok, err := e.Evaluate(s, false); e.Matches(s) != (ok && err == nil) {
			t.Fatalf("%q: Matches says otherwise", text)
		}
	}
	_ = e.Validate(func(yield func(Subject) bool) {
		for _, s := range subjects {
			if !yield(s) {
				return
			}
		}
	})
}

func FuzzParseQuery(f *testing.F) {
	for _, text := range []string{
		"", "attribute:ecs.instance-type == t2.small", "attribute:ecs.availability-zone in [us-east-1a, us-east-1b]",
		"attribute:ecs.instance-type =~ g2.* and attribute:ecs.availability-zone != us-east-1d",
		"task:group == service:production",
		"not(task:group == database)", "runningTasksCount == 1", "agentVersion < 1.14.5-rc+b",
		"registeredAt < 2018-02-13T10:00:00+02:00",
		"ec2InstanceId !in ['i-abcd1234', \"i-wxyx7890\"]",
		"(attribute:a exists || !attribute:b not_exists) && agentConnected != true",
		`attribute:a =~ (p[2,3]|g[^)]).*\)\d{2,}?`, `attribute:a !~ '[\s\x41-\u0042]\p{Lower}\Q.*\E\R(?i:x)'`,
		"attribute:a =~ (?=x)", "attribute:a == 'it\"s'",
		"attribute:a >= 5 or attribute:b less_than x and not not attribute:c in[x,'',y]",
		"attribute:a =~ [^]&&]x&&attribute:b exists", "attribute:ä == \xff",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { fuzzed(t, ParseQuery, text) })
}

func FuzzParseProperties(f *testing.F) {
	for _, text := range []string{
		"", "a == 5", "!(a > 5) || b != alpha", "FaultDomain ^ fd:/DC0 && FaultDomain !^P fd:/DC1",
		"FDPolicy ~ Nonpacking && PlacePolicy ~ NonPartially ",
		"(a == 5) == (b == 5)", "!a == 5", "true", "()var", "a === = 5", "! =x", "a ^Prod", "a == 0x1p3 && b >= -inf",
		"((a < 100) || ((b == false) && (a >= 100)))",
		"a == b == c && (true && x) || y", "a|||b", "a &&& b == c", "größe == \xff", "\t a\n== 5 )",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { fuzzed(t, ParseProperties, text) })
}

// Any pattern compiles or is refused, and any text either matches or does not.
func FuzzPattern(f *testing.F) {
	for _, source := range []string{"t2.*", `[\s\S]\h+(?<n>a|b)*?\p{IsLatin}`, `\Q.*\E`, `[a-c&&b]`,
		`(?i-s:x)\0101\cA{2}`, `\b[^]\-]$`, "(?u)", "(?-)"} {
		f.Add(source, "t2.small")
	}
	f.Fuzz(func(t *testing.T, source, text string) {
		if len(source) > MaxQueryLength {
			return
		}
		if p, err := compilePattern(source, 0, source); err == nil && p.matches(text) != p.regexp.MatchString(text) {
			t.Fatalf("%q on %q: %v", source, text, p.matches(text))
		}
	})
}

func FuzzParseDouble(f *testing.F) {
	for _, text := range []string{"5", "-0x1.8p+3", "1e999", "infinity", "nan(1)", " .5"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if u, ok := parseURI(text); ok && (!u.equals(&u) || !u.isPrefixOf(&u)) {
			t.Fatalf("%q is not itself", text)
		}
		if _, ok := parseDouble(text); !ok {
			return
		}
		if _, ok := parseURI(text); ok {
			t.Fatalf("%q is both a number and a URI", text)
		}
	})
}
