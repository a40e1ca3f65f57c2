package constraint

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var (
	someValues = []string{"", "a", "prod", "us-east-1a", "9", "10", "10.5", "x y", "it's", `"q"`, "fd:/dc0/r1",
		"fd:/dc0", "0x1F", "inf"}
	someNames = []string{"a", "b", "ecs.instance-type"}
)

// anInstance draws an instance with some of the names and values that the expressions below use.
func anInstance(t *rapid.T) *instance {
	i := &instance{attributes: map[string]string{}, properties: map[string]string{}}
	for _, name := range someNames {
		for kind, values := range map[string]map[string]string{"attribute": i.attributes, "property": i.properties} {
			if rapid.Bool().Draw(t, kind+" "+name) {
				values[name] = rapid.SampledFrom(someValues).Draw(t, kind+" value")
			}
		}
	}
	i.disconnected = rapid.Bool().Draw(t, "disconnected")
	i.version = rapid.SampledFrom([]string{"", "1.14.5", "1.9", "odd"}).Draw(t, "version")
	i.ec2 = rapid.SampledFrom([]string{"", "i-1", "i-2"}).Draw(t, "ec2")
	i.groups = rapid.SliceOfN(rapid.SampledFrom([]string{"g", "service:x"}), 0, 3).Draw(t, "groups")
	if rapid.Bool().Draw(t, "registered") {
		i.registered = time.Date(2018, 2, rapid.IntRange(1, 28).Draw(t, "day"), 0, 0, 0, 0, time.UTC)
	}
	return i
}

// aValue draws a quoted value of a query.
func aValue(t *rapid.T) string {
	v := rapid.SampledFrom(someValues).Draw(t, "value")
	if strings.Contains(v, "'") {
		return `"` + v + `"`
	}
	return "'" + v + "'"
}

func aComparison(t *rapid.T) string {
	name := "attribute:" + rapid.SampledFrom(someNames).Draw(t, "name")
	switch rapid.IntRange(0, 8).Draw(t, "kind") {
	case 0:
		return name + rapid.SampledFrom([]string{" exists", " !exists"}).Draw(t, "op")
	case 1:
		return fmt.Sprintf("%s %s [%s, %s]", name, rapid.SampledFrom([]string{"in", "!in"}).Draw(t, "op"), aValue(t),
			aValue(t))
	case 2:
		return name + " =~ " + rapid.SampledFrom([]string{"us-.*", "(a|prod)", `\d+`, "'x y'"}).Draw(t, "pattern")
	case 3:
		return "task:group " + rapid.SampledFrom([]string{"== g", "!= g", "in [g, h]", "!~ service:.*",
			"exists"}).Draw(t, "groups")
	case 4:
		return "runningTasksCount " + rapid.SampledFrom([]string{"== 0", "> 1", "<= 2", "!= 1"}).Draw(t, "tasks")
	case 5:
		return "agentVersion " + rapid.SampledFrom([]string{"== 1.14.5", "< 1.10", "!= 1.9"}).Draw(t, "version")
	case 6:
		return "registeredAt " + rapid.SampledFrom([]string{"< 2018-02-14", ">= 2018-02-02T00:00:00Z",
			"!= 2018-02-05"}).Draw(t, "date")
	}
	return name + " " + rapid.SampledFrom([]string{"==", "!=", "<", ">="}).Draw(t, "op") + " " + aValue(t)
}

// aQuery draws a query of at most some levels.
func aQuery(t *rapid.T, depth int) string {
	if depth == 0 {
		return aComparison(t)
	}
	a := aQuery(t, depth-1)
	switch rapid.IntRange(0, 4).Draw(t, "form") {
	case 0:
		return "not(" + a + ")"
	case 1:
		return "(" + a + ") or (" + aQuery(t, depth-1) + ")"
	case 2:
		return "(" + a + ") and (" + aQuery(t, depth-1) + ")"
	case 3:
		return "(" + a + " and " + aQuery(t, depth-1) + ") or not " + aComparison(t)
	}
	return a
}

// aConstraint draws a constraint whose properties often have no value of the right kind.
func aConstraint(t *rapid.T, depth int) string {
	if depth == 0 {
		op := rapid.SampledFrom([]string{"==", "!=", "<", ">=", "^", "!^", "^P", "~"}).Draw(t, "op")
		literal := rapid.SampledFrom([]string{"a", "9", "10.5", "fd:/dc0", "0x1f", "us-east", "x y"}).Draw(t, "literal")
		return rapid.SampledFrom(someNames).Draw(t, "name") + " " + op + " " + literal
	}
	a := aConstraint(t, depth-1)
	switch rapid.IntRange(0, 5).Draw(t, "form") {
	case 0:
		return "!(" + a + ")"
	case 1:
		return "(" + a + ") || (" + aConstraint(t, depth-1) + ")"
	case 2:
		return a + " && " + aConstraint(t, depth-1)
	case 3:
		return "(" + a + ") == (" + aConstraint(t, depth-1) + ")"
	case 4:
		return "!" + a
	}
	return a
}

func TestQueryLaws(t *testing.T) {
	same := func(t *rapid.T, i *instance, a, b string) {
		if mustRapid(t, ParseQuery, a).Matches(i) != mustRapid(t, ParseQuery, b).Matches(i) {
			t.Errorf("on %+v, %s is not %s", i, a, b)
		}
	}
	law := func(name string, f func(t *rapid.T, i *instance)) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { f(t, anInstance(t)) })
		})
	}
	law("DeMorgan", func(t *rapid.T, i *instance) {
		a, b := aQuery(t, 2), aQuery(t, 2)
		same(t, i, "not(("+a+") and ("+b+"))", "not("+a+") or not("+b+")")
		same(t, i, "not(("+a+") or ("+b+"))", "not("+a+") and not("+b+")")
	})
	law("DoubleNegation", func(t *rapid.T, i *instance) {
		a := aQuery(t, 2)
		same(t, i, "not(not("+a+"))", a)
	})
	law("InIsOr", func(t *rapid.T, i *instance) {
		subject := rapid.SampledFrom([]string{"attribute:a", "ec2InstanceId", "task:group"}).Draw(t, "subject")
		values := rapid.SliceOfN(rapid.Custom(aValue), 1, 5).Draw(t, "values")
		each := make([]string, len(values))
		for k, v := range values {
			each[k] = subject + " == " + v
		}
		same(t, i, subject+" in ["+strings.Join(values, ", ")+"]", strings.Join(each, " or "))
	})
	law("DenialsAreNegationsWhereThereIsAValue", func(t *rapid.T, i *instance) {
		i.attributes["a"] = rapid.SampledFrom(someValues).Draw(t, "a")
		v := aValue(t)
		same(t, i, "attribute:a != "+v, "not(attribute:a == "+v+")")
		same(t, i, "attribute:a !in ["+v+"]", "not(attribute:a in ["+v+"])")
		same(t, i, "attribute:a !~ "+v, "not(attribute:a =~ "+v+")")
		same(t, i, "attribute:a >= "+v, "not(attribute:a < "+v+")")
	})
	law("PrintedIsTheSame", func(t *rapid.T, i *instance) {
		a := aQuery(t, 3)
		printed := mustRapid(t, ParseQuery, a).String()
		same(t, i, a, printed)
		if again := mustRapid(t, ParseQuery, printed).String(); again != printed {
			t.Errorf("%s prints as %s", printed, again)
		}
	})
	law("StaticIgnoresTasks", func(t *rapid.T, i *instance) {
		e := mustRapid(t, ParseQuery, aQuery(t, 2))
		before := e.Matches(i)
		i.groups = append(i.groups, "another")
		if e.Static() && e.Matches(i) != before {
			t.Errorf("%s is not static", e)
		}
	})
}

func mustRapid(t *rapid.T, parse func(string) (*Expression, error), text string) *Expression {
	e, err := parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

func TestPropertyLaws(t *testing.T) {
	type value struct {
		ok     bool
		failed bool
	}
	of := func(t *rapid.T, i *instance, text string, primary bool) value {
		ok, err := mustRapid(t, ParseProperties, text).Evaluate(i, primary)
		return value{ok, err != nil}
	}
	law := func(name string, f func(t *rapid.T, i *instance, primary bool)) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { f(t, anInstance(t), rapid.Bool().Draw(t, "primary")) })
		})
	}
	// Both laws hold for errors, too: nothing is short-circuited, and the negation of an error is
	// an error.
	law("DeMorgan", func(t *rapid.T, i *instance, primary bool) {
		a, b := aConstraint(t, 2), aConstraint(t, 2)
		for _, pair := range [][2]string{
			{"!((" + a + ") && (" + b + "))", "!(" + a + ") || !(" + b + ")"},
			{"!((" + a + ") || (" + b + "))", "!(" + a + ") && !(" + b + ")"},
			{"!!(" + a + ")", a},
			{"(" + a + ") || (" + b + ")", "(" + b + ") || (" + a + ")"},
		} {
			if x, y := of(t, i, pair[0], primary), of(t, i, pair[1], primary); x != y {
				t.Errorf("on %v, %s is %v and %s is %v", i.properties, pair[0], x, pair[1], y)
			}
		}
	})
	law("MissingPropertyMatchesNothing", func(t *rapid.T, i *instance, _ bool) {
		e := mustRapid(t, ParseProperties, aConstraint(t, 3))
		for _, name := range e.PropertyNames() {
			if _, ok := i.properties[name]; !ok && e.Matches(i) && !strings.Contains(e.String(), "^P") {
				t.Errorf("%s matches a node without %s", e, name)
			}
		}
	})
	law("PrintedIsTheSame", func(t *rapid.T, i *instance, primary bool) {
		a := aConstraint(t, 3)
		e := mustRapid(t, ParseProperties, a)
		if x, y := of(t, i, a, primary), of(t, i, e.String(), primary); x != y {
			t.Errorf("on %v, %s is %v and, printed, %v", i.properties, a, x, y)
		}
		if again := mustRapid(t, ParseProperties, e.String()); again.String() != e.String() ||
			again.Directives() != e.Directives() {
			t.Errorf("%s prints as %s", e, again)
		}
	})
	law("WhatMatchesIsValid", func(t *rapid.T, i *instance, _ bool) {
		e := mustRapid(t, ParseProperties, aConstraint(t, 2))
		if err := e.Validate(slices.Values([]Subject{anInstance(t), i})); err != nil && e.Matches(i) {
			t.Errorf("%s matches %v and is invalid: %v", e, i.properties, err)
		}
	})
}
