package constraint

import (
	"slices"
	"strings"
	"testing"
)

func mustProperties(t testing.TB, text string) *Expression {
	t.Helper()
	e, err := ParseProperties(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return e
}

// propertyRow says that an expression has a value on a node: "true", "false" or "error".
type propertyRow struct {
	expression string
	node       *instance
	want       string
}

func checkProperties(t *testing.T, primary bool, rows []propertyRow) {
	t.Helper()
	for _, row := range rows {
		e := mustProperties(t, row.expression)
		for _, e := range []*Expression{e, mustProperties(t, e.String())} {
			ok, err := e.Evaluate(row.node, primary)
			got := map[bool]string{true: "true", false: "false"}[ok]
			if err != nil {
				got = "error"
			}
			if got != row.want || err != nil && ok {
				t.Errorf("%s, read as %s, on %v: %s (%v), want %s", row.expression, e, row.node.properties, got, err,
					row.want)
			}
			if !primary && e.Matches(row.node) != (row.want == "true") {
				t.Errorf("%s on %v: Matches says otherwise", row.expression, row.node.properties)
			}
		}
	}
}

func TestPropertyComparisons(t *testing.T) {
	five, text, none := properties("a", "5"), properties("a", "alpha"), properties("b", "5")
	t.Run("Numbers", func(t *testing.T) {
		checkProperties(t, false, []propertyRow{
			{"a == 5", five, "true"}, {"a == 6", five, "false"}, {"a != 5", five, "false"}, {"a != 6", five, "true"},
			{"a > 4", five, "true"}, {"a > 5", five, "false"}, {"a >= 5", five, "true"}, {"a >= 6", five, "false"},
			{"a < 6", five, "true"}, {"a < 5", five, "false"}, {"a <= 5", five, "true"}, {"a <= 4", five, "false"},
			{"a == 5.0", five, "true"}, {"a == 05", five, "true"}, {"a == 0x5", five, "true"},
			{"a == 5e0", five, "true"},
			{"a == +5", five, "true"}, {"a > -3", five, "true"}, {"a < inf", five, "true"},
			{"a > -infinity", five, "true"},
			{"a == 5", properties("a", "5.000"), "true"}, {"a == 5", properties("a", " 5"), "true"},
			{"a == 5", properties("a", "5 "), "false"},
			{"a < 10", properties("a", "9"), "true"}, {"a < 10", properties("a", "0x9"), "true"},
			{"a > 1000", properties("a", "1e3"), "false"},
			{"a == nan", properties("a", "nan"), "false"}, {"a != nan", properties("a", "nan"), "true"},
			{"a >= nan", five, "false"},
			{"a == 9223372036854775807", properties("a", "9223372036854775806"), "true"}, // as doubles
			{"a == 0", properties("a", ""), "true"}, {"a >= 1", properties("a", ""), "false"},
			{"a < 1", properties("a", ""), "true"},
			{"a == x", properties("a", ""), "false"}, {"a ^ 5", properties("a", ""), "error"},
		})
	})
	t.Run("Text", func(t *testing.T) {
		checkProperties(t, false, []propertyRow{
			{"a == alpha", text, "true"}, {"a == beta", text, "false"}, {"a != alpha", text, "false"},
			{"a != beta", text, "true"},
			{"a == Alpha", text, "false"}, {"a == alpha", five, "false"}, {"a == 5", text, "false"},
			{"a != 5", text, "true"},
			{"HasSSD == True", properties("HasSSD", "true"), "false"},
			{"HasSSD == true", properties("HasSSD", "true"), "true"},
			{`a == "x"`, properties("a", "x"), "false"}, {`a == "x"`, properties("a", `"x"`), "true"},
			{"a == 'x y'", properties("a", "'x y'"), "true"},
			{"a == hello world", properties("a", "hello world"), "true"},
			{"a ==   hello  world  ", properties("a", "hello  world"), "true"},
		})
	})
	t.Run("OrderOfTextIsAnError", func(t *testing.T) {
		for _, op := range []string{">", ">=", "<", "<="} {
			checkProperties(t, false, []propertyRow{
				{"a " + op + " 5", text, "error"}, {"a " + op + " alpha", five, "error"},
				{"a " + op + " alpha", text, "error"},
				{"a " + op + " fd:/x", properties("a", "fd:/x"), "error"},
			})
		}
	})
	t.Run("Prefix", func(t *testing.T) {
		checkProperties(t, false, []propertyRow{
			{"a ^ al", text, "true"}, {"a ^ alpha", text, "true"}, {"a ^ alphabet", text, "false"},
			{"a ^ lpha", text, "false"}, {"a ^ AL", text, "false"},
			{"a !^ al", text, "false"}, {"a !^ alphabet", text, "true"}, {"a !^ x", text, "true"},
			{"a ^ 5", five, "error"}, {"a !^ 5", five, "error"}, {"a ^ 5", properties("a", "5x"), "true"},
			{"a ^ 5x", five, "false"}, {"a !^ 5x", five, "true"},
		})
	})
	t.Run("PropertyIsLeftAndLiteralRight", func(t *testing.T) {
		both := properties("a", "5", "b", "5", "5", "x")
		checkProperties(t, false, []propertyRow{
			{"a == b", both, "false"}, {"a == b", properties("a", "b"), "true"}, {"5 == a", both, "false"},
			{"5 == x", both, "true"}, {"5 == a", five, "error"},
		})
	})
	t.Run("UndefinedPropertyIsAnError", func(t *testing.T) {
		for _, op := range []string{"==", "!=", ">", ">=", "<", "<=", "^", "!^"} {
			checkProperties(t, false, []propertyRow{{"a " + op + " 5", none, "error"},
				{"a " + op + " x", none, "error"}, {"!(a " + op + " 5)", none, "error"}})
		}
		checkProperties(t, false, []propertyRow{{"A == 5", five, "error"}})
	})
}

func TestPropertyURIs(t *testing.T) {
	at := func(domain string) *instance { return properties("FaultDomain", domain) }
	checkProperties(t, false, []propertyRow{
		{"FaultDomain ^ fd:/DC0", at("fd:/DC0/Rack0/Shelf0"), "true"},
		{"FaultDomain ^ fd:/DC0", at("fd:/DC0/Rack0"), "true"},
		{"FaultDomain ^ fd:/DC0", at("fd:/DC0"), "true"}, {"FaultDomain ^ fd:/DC0", at("fd:/DC00/Rack0"), "false"},
		{"FaultDomain ^ fd:/DC0/Rack0", at("fd:/DC0"), "false"},
		{"FaultDomain ^ fd:/DC0", at("fd:/dc0/Rack0"), "false"},
		{"FaultDomain ^ FD:/DC0", at("fd:/DC0/Rack0"), "true"}, {"FaultDomain ^ ud:/DC0", at("fd:/DC0"), "false"},
		{"FaultDomain ^ fd:/", at("fd:/DC0"), "true"},
		{"FaultDomain ^ fd:/DC", at("DC0"), "false"}, {"FaultDomain ^ DC", at("DC0"), "true"},
		{"FaultDomain !^ fd:/DC0", at("fd:/DC0/Rack0"), "false"}, {"FaultDomain !^ fd:/DC0", at("fd:/DC0"), "false"},
		{"FaultDomain !^ fd:/DC0", at("fd:/DC1"), "true"}, {"FaultDomain !^ fd:/DC0", at("fd:/DC00"), "true"},
		{"FaultDomain == fd:/DC0", at("fd:/DC0"), "true"}, {"FaultDomain == FD:/DC0", at("fd:/DC0"), "true"},
		{"FaultDomain == fd:/DC0", at("fd:/dc0"), "false"}, {"FaultDomain == fd:/DC0", at("fd:/DC0/"), "false"},
		{"FaultDomain == fd:/DC0", at(" fd:/DC0 "), "true"}, {"FaultDomain != FD:/DC0", at("fd:/DC0"), "false"},
		{"FaultDomain != fd:/DC1", at("fd:/DC0"), "true"},
		{"u == http://Host/A", properties("u", "http://hOST/A"), "true"},
		{"u == http://host/A", properties("u", "http://host/a"), "false"},
		{"u == http://host/", properties("u", "http://host"), "true"}, {"u ^ x:5", properties("u", "5"), "false"},
	})
}

func TestPropertyBooleans(t *testing.T) {
	five, both := properties("a", "5"), properties("a", "5", "b", "6")
	t.Run("ErrorsPropagate", func(t *testing.T) {
		checkProperties(t, false, []propertyRow{
			{"a == 5 || b == 6", five, "error"}, {"a == 6 || b == 6", five, "error"},
			{"b == 6 || a == 5", five, "error"},
			{"a == 6 && b == 6", five, "error"}, {"b == 6 && a == 6", five, "error"},
			{"a == 5 && b == 6", five, "error"},
			{"!(a == 5 || b == 6)", five, "error"}, {"!!(b == 6)", five, "error"},
			{"a == 5 || (a == 5 && b > x)", both, "error"},
			{"a == 5 || b ^ 6", both, "error"},
		})
	})
	t.Run("Values", func(t *testing.T) {
		checkProperties(t, false, []propertyRow{
			{"a == 5 && b == 6", both, "true"}, {"a == 5 && b == 5", both, "false"}, {"a == 6 || b == 6", both, "true"},
			{"a == 6 || b == 5", both, "false"},
			{"!(a == 5)", five, "false"}, {"! (a == 6)", five, "true"}, {"!!(a == 5)", five, "true"},
			{"!(!(a == 5))", five, "true"},
		})
	})
	t.Run("Precedence", func(t *testing.T) {
		checkProperties(t, false, []propertyRow{
			{"a == 5 && a == 6 || a == 5", five, "true"}, {"a == 5 || a == 6 && a == 7", five, "true"},
			{"(a == 5 || a == 6) && a == 7", five, "false"},
			{"a == 5 && (a == 6 || a == 5)", five, "true"}, {"!(a == 6) && a == 5", five, "true"},
			{"!(a == 5) || a == 5", five, "true"},
			{"a == 5 == 5", five, "error"}, {"a == 5 && a == 5 == 5", five, "error"}, {"!a == 5", five, "error"},
			{"!(a) == 5", five, "error"},
		})
	})
	t.Run("OperandsOfTheWrongKind", func(t *testing.T) {
		checkProperties(t, false, []propertyRow{
			{"(a == 5) == (b == 6)", both, "error"}, {"(a == 5) == 5", both, "error"}, {"a == (b == 6)", both, "error"},
			{"a == !(b == 6)", both, "error"},
			{"(a == 5) ~ x", both, "error"}, {"true && a == 5", five, "error"}, {"a == 5 || true", five, "error"},
			{"true || true", five, "error"},
			{"!true", five, "error"}, {"!a", five, "error"}, {"!(true)", five, "error"},
			{"a == 5 && !b", both, "error"}, {"!!true", five, "error"},
		})
	})
	t.Run("BareLiteral", func(t *testing.T) {
		checkProperties(t, false, []propertyRow{
			{"", five, "true"}, {"  \t", five, "true"}, {"true", five, "true"}, {" true ", five, "true"},
			{"(true)", five, "true"}, {"True", five, "false"},
			{"false", five, "false"}, {"a", five, "false"}, {"a", properties("a", "true"), "false"},
			{"5", five, "false"}, {"hello world", five, "false"},
		})
	})
	t.Run("Parentheses", func(t *testing.T) {
		checkProperties(t, false, []propertyRow{
			{"(a == 5)", five, "true"}, {"((a == 5))", five, "true"}, {"(a) == (5)", five, "true"},
			{"( a == 5 ) ", five, "true"}, {"(a == 5)\n", five, "true"},
			{"((a < 100) || ((b == 6) && (a >= 100)))", both, "true"},
		})
	})
}

func TestPropertyTokens(t *testing.T) {
	checkProperties(t, false, []propertyRow{
		{"a==5", properties("a", "5"), "true"}, {"a>=-3", properties("a", "-2"), "true"},
		{"a>=-3", properties("a", "-4"), "false"},
		{"is-custom-property==True", properties("is-custom-property", "True"), "true"},
		{"a.b/c:d == 5", properties("a.b/c:d", "5"), "true"},
		{"a b == 5", properties("a b", "5"), "true"}, {"a === 5", properties("a", "= 5"), "true"},
		{"a => 5", properties("a =", "6"), "true"},
		{"a & b == 5", properties("a & b", "5"), "true"}, {"a | b == 5", properties("a | b", "5"), "true"},
		{"x = y", properties(), "false"},
		{"a == 5|6", properties("a", "5|6"), "true"}, {"größe == 5", properties("größe", "5"), "true"},
		{"a == é ü", properties("a", "é ü"), "true"},
		{"a == [x]{y}%$#@;,*+?_", properties("a", "[x]{y}%$#@;,*+?_"), "true"},
		{"\ta\t==\n5\r\n&& a == 5", properties("a", "5"), "true"},
		{"a != !(b == 6)", properties("a", "5", "b", "6"), "error"}, {"a<5", properties("a", "4"), "true"},
		{"a<=5", properties("a", "5"), "true"},
		// ^P rod, for primaries
		{"a ^ P", properties("a", "Prod"), "true"}, {"a ^Prod", properties("a", "Prod"), "true"},
		{"a ^Prod", properties("a", "x"), "true"}, {"a!^x", properties("a", "y"), "true"},
		{"a!=x", properties("a", "y"), "true"},
	})
}

func TestPrimaryDirective(t *testing.T) {
	dc0 := properties("FaultDomain", "fd:/DC0/Rack0")
	t.Run("OthersSkipPrimaryConstraints", func(t *testing.T) {
		checkProperties(t, false, []propertyRow{
			{"FaultDomain ^P fd:/DC1", dc0, "true"}, {"FaultDomain !^P fd:/DC0", dc0, "true"},
			{"missing ^P x", dc0, "true"},
			{"FaultDomain ^P fd:/DC1 && FaultDomain ^ fd:/DC0", dc0, "true"},
			{"FaultDomain ^P fd:/DC0 && missing == 5", dc0, "error"},
			{"!(FaultDomain ^P fd:/DC0)", dc0, "false"}, {"(missing == 5) ^P x", dc0, "error"},
		})
	})
	t.Run("PrimariesSkipOtherConstraints", func(t *testing.T) {
		checkProperties(t, true, []propertyRow{
			{"FaultDomain ^P fd:/DC0", dc0, "true"}, {"FaultDomain ^P fd:/DC1", dc0, "false"},
			{"FaultDomain !^P fd:/DC0", dc0, "false"},
			{"FaultDomain !^P fd:/DC1", dc0, "true"}, {"missing ^P x", dc0, "error"}, {"missing == 5", dc0, "true"},
			{"FaultDomain ^P fd:/DC0 && FaultDomain == x", dc0, "true"}, {"a ^P 5", properties("a", "5"), "error"},
			{"FDPolicy ~ Ignore", dc0, "true"}, {"a ^Prod", properties("a", "rodeo"), "true"},
			{"a ^Prod", properties("a", "Prod"), "false"},
			{"", dc0, "true"}, {"true", dc0, "true"}, {"other", dc0, "false"},
		})
	})
}

func TestDirectives(t *testing.T) {
	for text, want := range map[string]Directives{
		"":                      {},
		"a == 5":                {},
		"FDPolicy ~ Nonpacking": {DomainPolicy: "nonpacking"}, "FDPolicy ~ Ignore && a == 5 ": {DomainPolicy: "ignore"},
		"FaultDomain ^P fd:/DC0 && FDPolicy ~ Nonpacking": {DomainPolicy: "nonpacking"},
		"PlacePolicy ~ NonPartially ":                     {AllOrNothing: true},
		"FDPolicy~ignore&&PlacePolicy~nonpartially":       {DomainPolicy: "ignore", AllOrNothing: true},
		"FDPolicy ~ Packing":                              {}, "PlacePolicy ~ Partially": {}, "FDPolicy ~ 5": {},
		"fdpolicy ~ Ignore":  {},
		"FDPolicy == Ignore": {}, "FDPolicy ~ Ignore || FDPolicy ~ Nonpacking": {DomainPolicy: "ignore"},
		"!(a == 5 && FDPolicy ~ Ignore)": {DomainPolicy: "ignore"},
		"(FDPolicy ~ Ignore) == 5":       {DomainPolicy: "ignore"},
	} {
		e := mustProperties(t, text)
		if got := e.Directives(); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
		if got := mustProperties(t, e.String()).Directives(); got != want {
			t.Errorf("%s printed: %+v, want %+v", text, got, want)
		}
	}
	checkProperties(t, false, []propertyRow{
		{"FDPolicy ~ Ignore", properties(), "true"}, {"x ~ y", properties(), "true"},
		{"!(x ~ y)", properties(), "false"},
		{"a == 5 && FDPolicy ~ Ignore", properties("a", "6"), "false"},
	})
}

func TestPropertyNames(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "true": "", "b == 5 || a > x && b == 6": "a b", "!(z ^ q) && y !^P q": "y z",
		"FDPolicy ~ Ignore && c == 1": "c",
		"(a == 5) == (b == 5)":        "a b", "a == b": "a", "hello world == 1": "hello world",
	} {
		e := mustProperties(t, text)
		if got := strings.Join(e.PropertyNames(), " "); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		if !e.Static() {
			t.Errorf("%s: not static", text)
		}
	}
}

func TestValidate(t *testing.T) {
	nodes := []Subject{properties("a", "5"), properties("a", "x", "b", "y")}
	for text, want := range map[string]string{
		"": "", "a == 7": "", "a == 5 && b == 7": "", "a > 3": "", "a ^ q": "", // on one node at least
		"c == 5": `property "c" is not defined`, "a == 5 || c == 5": `property "c" is not defined`,
		"!(c > 5)": `property "c" is not defined`,
		"b > 5":    "> compares numbers", "a < z": "< compares numbers", "c ^P x": "", "c !^P x && b == y": "",
		"FDPolicy ~ Ignore": "",
		"true && a == 5":    "joins comparisons", "(a == 5) == (b == 5)": "compares a property with a literal",
		"!a": "! denies",
	} {
		err := mustProperties(t, text).Validate(slices.Values(nodes))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if e, ok := err.(*EvaluationError); err != nil && (!ok || strings.Contains(want, `"c"`) && e.Property != "c") {
			t.Errorf("%s: %#v", text, err)
		}
	}
	if err := mustProperties(t, "a == 5").Validate(slices.Values([]Subject{})); err == nil {
		t.Error("without nodes no property is defined")
	}
	// a prefix of two numbers is an error on every node, although only some have them
	if err := mustProperties(t, "a ^ 5").Validate(slices.Values(nodes[:1])); err == nil {
		t.Error("a ^ 5 is an error on the only node")
	}
	if err := mustProperties(t, "a ^ 5").Validate(slices.Values(nodes)); err != nil {
		t.Error(err)
	}
}

func TestPropertySyntaxErrors(t *testing.T) {
	for _, c := range []struct {
		text     string
		column   int
		expected string
	}{
		{"(abc", 5, "an operator or )"}, {"abc)", 4, "an operator or the end"}, {"1==", 4, "a property or literal"},
		{"==1", 1, "a property or literal"},
		{"==", 1, "a property or literal"}, {"!", 2, "a property or literal"}, {"!a && !", 8, "a property or literal"},
		{"a!Param)", 2, "an operator or the end"},
		{"()var", 2, "a property or literal"}, {"()", 2, "a property or literal"},
		{"a == ", 6, "a property or literal"},
		{"a == 5 &&", 10, "a property or literal"}, {"&& a == 5", 1, "a property or literal"},
		{"a == 5 && && b == 6", 11, "a property or literal"},
		{"a == == 5", 6, "a property or literal"}, {"a <> 5", 4, "a property or literal"},
		{"a == 5)", 7, "an operator or the end"}, {"(a == 5", 8, "an operator or )"},
		{"((a == 5)", 10, "an operator or )"}, {"(a == 5) b", 10, "an operator or the end"},
		{"(a == 5)(b == 6)", 9, "an operator or the end"},
		{"a (b == 6)", 3, "an operator or the end"}, {"a == 5 (b", 8, "an operator or the end"},
		{"a =! 5", 4, "an operator or the end"},
		{"a == (", 7, "a property or literal"}, {")", 1, "a property or literal"},
		{"! == 5", 3, "a property or literal"}, {"é == (", 7, "a property or literal"},
		{"a ~", 4, "a property or literal"}, {"a ^P", 5, "a property or literal"},
	} {
		_, err := ParseProperties(c.text)
		refused(t, c.text, err, c.column, c.expected)
	}
}

func TestPropertyLimits(t *testing.T) {
	if _, err := ParseProperties("a == " + strings.Repeat("é", MaxPropertyLength-5)); err != nil {
		t.Error(err)
	}
	_, err := ParseProperties("a == " + strings.Repeat("é", MaxPropertyLength-4))
	refused(t, "long", err, MaxPropertyLength+1, "at most 10000 characters")
	for _, c := range [][2]string{{"(", ")"}, {"!", ""}, {"! ", ""}} {
		nested := func(n int) string { return strings.Repeat(c[0], n) + "(a == 5)" + strings.Repeat(c[1], n) }
		if _, err := ParseProperties(nested(MaxDepth - 1)); err != nil {
			t.Error(err)
		}
		if _, err := ParseProperties(nested(MaxDepth)); err == nil ||
			!strings.Contains(err.Error(), "at most 100 levels") {
			t.Errorf("deep %s: %v", c[0], err)
		}
	}
	long := "a == 5" + strings.Repeat(" && a == 5", 900)
	if !mustProperties(t, long).Matches(properties("a", "5")) {
		t.Error("a long chain does not match")
	}
	if _, err := ParseProperties("a" + strings.Repeat(" == a", 1900)); err != nil {
		t.Errorf("a long chain of comparisons: %v", err)
	}
}

func TestIsPropertyName(t *testing.T) {
	for _, name := range []string{"Ram", "a b", "HasSSD", "é.1", "a=b", "a|b", "'quoted'"} {
		if !IsPropertyName(name) {
			t.Errorf("%q is no name", name)
		}
	}
	for _, name := range []string{"", " ", " a", "a ", "a == b", "a<", "a>=1", "(a", "a)", "a && b", "||", "!a", "a!", "a^b",
		"FDPolicy ~ n"} {
		if IsPropertyName(name) {
			t.Errorf("%q is a name", name)
		}
	}
}
