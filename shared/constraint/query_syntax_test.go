package constraint

import (
	"errors"
	"strings"
	"testing"
)

// refused checks that an error is a syntax error at a column which says what was expected.
func refused(t *testing.T, text string, err error, column int, expected string) {
	t.Helper()
	e, ok := errors.AsType[*SyntaxError](err)
	if !ok {
		t.Errorf("%q: no syntax error: %v", text, err)
		return
	}
	if e.Column() != column || e.Position != column-1 || !strings.Contains(e.Expected, expected) {
		t.Errorf("%q: %v; want column %d, expecting %s", text, e, column, expected)
	}
}

func TestQuerySyntaxErrors(t *testing.T) {
	for _, c := range []struct {
		text     string
		column   int
		expected string
	}{
		{"", 1, "a subject"}, {"   ", 4, "a subject"}, {"stack == prod", 1, "a subject"},
		{"agentconnected == true", 1, "a subject"},
		{"attribute:", 11, "the name of an attribute"}, {"attribute: == x", 11, "the name of an attribute"},
		{"attribute:a:b == x", 12, "the name of an attribute"}, {"task:groups == x", 1, "a subject"},
		{"attribute:a", 12, "an operator"}, {"attribute:a prod", 13, "an operator"},
		{"attribute:a = prod", 13, "an operator (==,"},
		{"attribute:a existsx", 13, "an operator"}, {"attribute:a not in [x]", 13, "an operator"},
		{"agentVersion in [1.0]", 14, "an operator (==, !=, >, >=, <, <=)"},
		{"agentConnected > true", 16, "an operator (==, !=, in, !in, =~, !~)"},
		{"runningTasksCount exists", 19, "an operator"}, {"task:group > x", 12, "an operator"},
		{"registeredAt =~ 2018.*", 14, "an operator"},
		{"attribute:a ==", 15, "a value"}, {"attribute:a == ", 16, "a value"}, {"attribute:a == (x)", 16, "a value"},
		{"attribute:a == and attribute:b == x", 20, "and, or, or the end"},
		{"attribute:a == x y", 18, "and, or, or the end"},
		{"attribute:a == x=y", 17, "and, or"}, {"attribute:a == x, y", 17, "and, or"},
		{"attribute:a == [x]", 16, "a value"},
		{"attribute:a == 'x", 18, "the closing quote '"}, {`attribute:a == "x'`, 19, `the closing quote "`},
		{"attribute:a == x'y'", 17, "and, or"},
		{"attribute:a in x", 16, "a list in [ ]"}, {"attribute:a in [", 17, "a value"},
		{"attribute:a in []", 17, "a value"},
		{"attribute:a in [x", 18, ", or ]"}, {"attribute:a in [x,]", 19, "a value"},
		{"attribute:a in [x y]", 19, ", or ]"},
		{"attribute:a in [x], y", 19, "and, or"}, {"attribute:a in ['x]", 20, "the closing quote"},
		{"attribute:a =~", 15, "a regular expression"}, {"attribute:a =~ )", 16, "a regular expression"},
		{"agentConnected == yes", 19, "true or false"}, {"agentConnected in [true, no]", 26, "true or false"},
		{"agentVersion < v1.2", 16, "a version"}, {"agentVersion < 1..2", 16, "a version"},
		{"agentVersion == 1.", 17, "a version"},
		{"registeredAt < yesterday", 16, "a date"}, {"registeredAt < 2018-13-01", 16, "a date"},
		{"registeredAt < 2018-02-30", 16, "a date"},
		{"registeredAt < '2018-06-18 22:28:28'", 17, "a date"}, {"registeredAt < 2018-06-18T22:28:28.5", 16, "a date"},
		{"runningTasksCount == few", 22, "a whole number"}, {"runningTasksCount == 1.5", 22, "a whole number"},
		{"(attribute:a exists", 20, "and, or, or )"}, {"attribute:a exists)", 19, "and, or, or the end"},
		{"()", 2, "a subject"},
		{"not", 4, "a subject"}, {"not not", 8, "a subject"}, {"!", 2, "a subject"},
		{"attribute:a exists and", 23, "a subject"},
		{"attribute:a exists or or attribute:b exists", 23, "a subject"}, {"and attribute:a exists", 1, "a subject"},
		{"attribute:a exists & attribute:b exists", 20, "and, or"},
		{"attribute:a exists andattribute:b exists", 20, "and, or"},
		{"attribute:ä exists", 11, "the name of an attribute"}, {"attribute:a == 'ä ö' or x", 25, "a subject"},
	} {
		_, err := ParseQuery(c.text)
		refused(t, c.text, err, c.column, c.expected)
	}
}

func TestErrorText(t *testing.T) {
	for text, want := range map[string]string{
		"attribute:a == x y":                          `column 18: expected and, or, or the end, found "y"`,
		"attribute:a in [x":                           "column 18: expected , or ], found the end",
		"runningTasksCount > averyveryverylongnumber": `column 21: expected a whole number, found "averyveryverylongnum"`,
	} {
		if _, err := ParseQuery(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestQueryLimits(t *testing.T) {
	value := func(n int) string { return "attribute:a == " + strings.Repeat("ä", n-len("attribute:a == ")) }
	if _, err := ParseQuery(value(MaxQueryLength)); err != nil {
		t.Errorf("%d characters: %v", MaxQueryLength, err)
	}
	_, err := ParseQuery(value(MaxQueryLength + 1))
	refused(t, "long", err, MaxQueryLength+1, "at most 2000 characters")

	for _, c := range []struct{ open, end string }{{"(", ")"}, {"!", ""}, {"not ", ""}} {
		nested := func(n int) string {
			return strings.Repeat(c.open, n) + "attribute:a exists" + strings.Repeat(c.end,
				n)
		}
		if _, err := ParseQuery(nested(MaxDepth)); err != nil {
			t.Errorf("%d times %s: %v", MaxDepth, c.open, err)
		}
		if _, err := ParseQuery(nested(MaxDepth + 1)); err == nil ||
			!strings.Contains(err.Error(), "at most 100 levels") {
			t.Errorf("%d times %s: %v", MaxDepth+1, c.open, err)
		}
	}
	// depth counts nesting, not occurrences
	if _, err := ParseQuery(strings.TrimSuffix(strings.Repeat("(task:group exists) or ", 80), " or ")); err != nil {
		t.Error(err)
	}
	list := func(n int) string { return "attribute:a in [" + strings.Repeat("x,", n-1) + "x]" }
	if _, err := ParseQuery(list(MaxListLength)); err != nil {
		t.Error(err)
	}
	if _, err := ParseQuery(list(MaxListLength + 1)); err == nil ||
		!strings.Contains(err.Error(), "at most 500 values") {
		t.Errorf("%d values: %v", MaxListLength+1, err)
	}
}

func TestVersions(t *testing.T) {
	ascending := []string{"0.9", "1.0.0-alpha", "1.0.0-beta", "1", "1.0.1", "1.2", "1.10.0", "1.10.0.1", "2.0.0-rc",
		"2", "10", "99999999999999999999999"}
	for i, a := range ascending {
		for j, b := range ascending {
			got := compareVersions(a, b)
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s and %s: %d", a, b, got)
			}
		}
	}
	for _, same := range [][2]string{{"1", "1.0.0"}, {"1.02", "1.2"}, {"1.2+build", "1.2"}, {"1.2-rc+x", "1.2-rc+y"}} {
		if compareVersions(same[0], same[1]) != 0 || compareVersions(same[1], same[0]) != 0 {
			t.Errorf("%v differ", same)
		}
	}
	for text, want := range map[string]bool{
		"1": true, "1.14.5": true, "1.2-rc.1": true, "1.2+b": true, "": false, ".1": false, "1.": false, "v1": false,
		"1.x": false, "-1": false,
	} {
		if isVersion(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

func TestDecimals(t *testing.T) {
	for text, want := range map[string]float64{"5": 5, "-5": -5, "+5": 5, "05.50": 5.5, "0": 0} {
		if got, ok := parseDecimal(text); !ok || got != want {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "-", "--5", "+-5", "5.", ".5", "1e3", "0x5", "inf", "nan", "5 ", "1_0", "1.2.3"} {
		if got, ok := parseDecimal(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}
