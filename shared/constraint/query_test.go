package constraint

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func mustQuery(t testing.TB, text string) *Expression {
	t.Helper()
	e, err := ParseQuery(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

// date returns a time as ECS gives it, with milliseconds.
func date(text string) time.Time {
	t, err := time.Parse("2006-01-02T15:04:05.999", text)
	if err != nil {
		panic(err)
	}
	return t
}

// The instances that the tables below choose from, by letters.
var fleet = map[byte]*instance{
	'a': {
		attributes: pairUp([]string{"ecs.instance-type", "t2.small", "ecs.availability-zone", "us-east-1a", "stack",
			"prod", "rank", "9"}),
		version: "1.14.5", ec2: "i-abcd1234", registered: date("2018-02-12T23:59:59.9"),
		groups: []string{"service:production", "database"},
	},
	'b': {
		attributes: pairUp([]string{"ecs.instance-type", "g2.2xlarge", "ecs.availability-zone", "us-east-1b", "stack",
			"test", "rank", "10"}),
		version: "1.14.4", ec2: "i-wxyx7890", registered: date("2018-02-13T00:00:00"),
		groups: []string{"family:web"},
	},
	'c': {
		attributes: pairUp([]string{"ecs.instance-type", "g2.8xlarge", "ecs.availability-zone", "us-east-1d",
			"ecs.capability.ecr", ""}),
		version: "1.9.0", registered: date("2018-06-18T22:28:28.5"), disconnected: true,
	},
}

// chosen returns the letters of the instances that satisfy a query.
func chosen(t testing.TB, query string) string {
	t.Helper()
	e := mustQuery(t, query)
	var out []byte
	for letter, i := range fleet {
		if e.Matches(i) {
			out = append(out, letter)
		}
		if ok, err := e.Evaluate(i, true); err != nil || ok != e.Matches(i) {
			t.Errorf("%s: a query knows no primaries and no errors: %v, %v", query, ok, err)
		}
	}
	slices.Sort(out)
	return string(out)
}

// choose checks rows of a query and the instances that it chooses, and that the printed query
// chooses the same.
func choose(t *testing.T, rows [][2]string) {
	for _, row := range rows {
		if got := chosen(t, row[0]); got != row[1] {
			t.Errorf("%s: chooses %q, want %q", row[0], got, row[1])
		}
		if printed := mustQuery(t, row[0]).String(); chosen(t, printed) != row[1] {
			t.Errorf("%s: printed as %s, which chooses otherwise", row[0], printed)
		}
	}
}

// The examples in the Amazon ECS Developer Guide: "Cluster query language" and "Task placement
// constraints".
func TestDeveloperGuideExamples(t *testing.T) {
	choose(t, [][2]string{
		{"attribute:ecs.instance-type == t2.small", "a"},
		{"attribute:ecs.availability-zone in [us-east-1a, us-east-1b]", "ab"},
		{"attribute:ecs.instance-type =~ g2.* and attribute:ecs.availability-zone != us-east-1d", "b"},
		{"task:group == service:production", "a"},
		{"not(task:group == database)", "bc"},
		{"runningTasksCount == 1", "b"},
		{"agentVersion < 1.14.5", "bc"},
		{"registeredAt < 2018-02-13", "a"},
		{"ec2InstanceId in ['i-abcd1234', 'i-wxyx7890']", "ab"},
		{"attribute:ecs.instance-type == g2.2xlarge", "b"},
		{"attribute:stack == prod", "a"},
		{"attribute:ecs.instance-type in [t2.small, t2.medium]", "a"},
		{"attribute:ecs.instance-type =~ t2.* and attribute:ecs.availability-zone == us-east-1a", "a"},
		{"attribute:ecs.instance-type =~ t2.*", "a"},
		{"task:group == databases", ""},
		{"(attribute:stack == prod or attribute:stack == test) and agentConnected == true", "ab"},
	})
	for _, format := range []string{"2018-06-18T22:28:28+00:00", "2018-06-18T22:28:28Z", "2018-06-18T22:28:28",
		"2018-06-18"} {
		if got := chosen(t, "registeredAt >= "+format); got != "c" {
			t.Errorf("registeredAt >= %s: chooses %q, want c", format, got)
		}
	}
}

func TestSubjectsAndOperators(t *testing.T) {
	t.Run("AgentConnected", func(t *testing.T) {
		choose(t, [][2]string{
			{"agentConnected == true", "ab"}, {"agentConnected != true", "c"}, {"agentConnected == false", "c"},
			{"agentConnected in [false]", "c"}, {"agentConnected in [true, false]", "abc"},
			{"agentConnected !in [true]", "c"},
			{"agentConnected =~ t.*", "ab"}, {"agentConnected !~ t.*", "c"}, {"agentConnected == 'true'", "ab"},
		})
	})
	t.Run("AgentVersion", func(t *testing.T) {
		choose(t, [][2]string{
			{"agentVersion == 1.14.5", "a"}, {"agentVersion != 1.14.5", "bc"}, {"agentVersion > 1.14.4", "a"},
			{"agentVersion >= 1.14.4", "ab"}, {"agentVersion < 1.14", "c"}, {"agentVersion <= 1.9", "c"},
			{"agentVersion == 1.9", "c"},
			{"agentVersion > 1.14.5-rc1", "a"}, {"agentVersion < 2", "abc"}, {"agentVersion == 01.014.005", "a"},
		})
	})
	t.Run("Attribute", func(t *testing.T) {
		choose(t, [][2]string{
			{"attribute:stack != prod", "b"}, {"attribute:stack exists", "ab"}, {"attribute:stack !exists", "c"},
			{"attribute:stack in [prod, other]", "a"}, {"attribute:stack in [prod,test]", "ab"},
			{"attribute:stack !in [prod]", "b"},
			{"attribute:stack =~ (prod|test)", "ab"}, {"attribute:stack !~ p.*", "b"}, {"attribute:Stack exists", ""},
			{"attribute:stack == Prod", ""}, {"attribute:stack == pro", ""}, {"attribute:stack =~ pro", ""},
			{"attribute:ecs.capability.ecr exists", "c"}, {"attribute:ecs.capability.ecr == ''", "c"},
		})
	})
	t.Run("AttributeOrder", func(t *testing.T) {
		choose(t, [][2]string{
			{"attribute:rank > 9", "b"}, {"attribute:rank >= 9", "ab"}, {"attribute:rank < 9.5", "a"},
			{"attribute:rank <= 10.0", "ab"},
			{"attribute:rank == 9.0", ""}, // equality is that of text
			{"attribute:rank > x", ""}, {"attribute:rank < x", "ab"}, {"attribute:stack > prod", "b"},
			{"attribute:stack < q", "a"},
		})
	})
	t.Run("EC2InstanceID", func(t *testing.T) {
		choose(t, [][2]string{
			{"ec2InstanceId == i-abcd1234", "a"}, {"ec2InstanceId != i-abcd1234", "b"},
			{"ec2InstanceId in [i-wxyx7890]", "b"},
			{"ec2InstanceId !in [i-wxyx7890]", "a"}, {"ec2InstanceId =~ i-[a-d]+.*", "a"},
			{"ec2InstanceId !~ i-[a-d]+.*", "b"},
		})
	})
	t.Run("RegisteredAt", func(t *testing.T) {
		choose(t, [][2]string{
			{"registeredAt == 2018-02-13", "b"}, {"registeredAt != 2018-02-13", "ac"},
			{"registeredAt > 2018-02-13", "c"},
			{"registeredAt >= 2018-02-13", "bc"}, {"registeredAt <= 2018-02-13", "ab"},
			{"registeredAt == 2018-06-18T22:28:28", "c"},
			{"registeredAt == 2018-06-19T00:28:28+02:00", "c"}, {"registeredAt == '2018-06-18T22:28:28Z'", "c"},
		})
	})
	t.Run("RunningTasksCount", func(t *testing.T) {
		choose(t, [][2]string{
			{"runningTasksCount == 0", "c"}, {"runningTasksCount != 0", "ab"}, {"runningTasksCount > 1", "a"},
			{"runningTasksCount >= 1", "ab"}, {"runningTasksCount < 1", "c"}, {"runningTasksCount <= 1", "bc"},
		})
	})
	t.Run("TaskGroup", func(t *testing.T) {
		choose(t, [][2]string{
			{"task:group == database", "a"}, {"task:group != database", "bc"},
			{"task:group in [database, family:web]", "ab"},
			{"task:group !in [database, other]", "bc"}, {"task:group =~ service:.*", "a"},
			{"task:group !~ service:.*", "bc"},
			{"task:group exists", "ab"}, {"task:group !exists", "c"}, {"task:group == 'family:web'", "b"},
		})
	})
}

// A value that an instance lacks does not exist. Everything else said about it is false, even that
// it differs from a value.
func TestMissingValue(t *testing.T) {
	bare := &instance{}
	for _, subject := range []string{"attribute:x", "ec2InstanceId"} {
		for op, want := range map[string]bool{
			"== v": false, "!= v": false, "in [v]": false, "!in [v]": false, "=~ .*": false, "!~ v": false,
		} {
			if got := mustQuery(t, subject+" "+op).Matches(bare); got != want {
				t.Errorf("%s %s: %v, want %v", subject, op, got, want)
			}
		}
	}
	for subject, arg := range map[string]string{"attribute:x": "5", "agentVersion": "1.0.0",
		"registeredAt": "2018-01-01"} {
		for op, want := range map[string]bool{"==": false, "!=": false, ">": false, ">=": false, "<": false,
			"<=": false} {
			if got := mustQuery(t, subject+" "+op+" "+arg).Matches(bare); got != want {
				t.Errorf("%s %s %s: %v, want %v", subject, op, arg, got, want)
			}
		}
	}
	for query, want := range map[string]bool{
		"attribute:x exists": false, "attribute:x !exists": true, "not(attribute:x == v)": true,
		"not(attribute:x != v)": true,
		"task:group exists":     false, "task:group !in [g]": true, "task:group != g": true,
		"runningTasksCount == 0": true,
	} {
		if got := mustQuery(t, query).Matches(bare); got != want {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	if odd := (&instance{version: "unknown"}); mustQuery(t, "agentVersion > 0").Matches(odd) ||
		mustQuery(t, "agentVersion != 1").Matches(odd) {
		t.Error("a version that is none must count as missing")
	}
}

func TestWordsAndSymbolsAreEqual(t *testing.T) {
	for word, symbol := range map[string]string{
		"attribute:a equals x": "attribute:a == x", "attribute:a not_equals x": "attribute:a != x",
		"attribute:a greater_than x": "attribute:a > x", "attribute:a greater_than_equal x": "attribute:a >= x",
		"attribute:a less_than x": "attribute:a < x", "attribute:a less_than_equal x": "attribute:a <= x",
		"attribute:a not_exists": "attribute:a !exists", "attribute:a not_in [x]": "attribute:a !in [x]",
		"attribute:a matches x": "attribute:a =~ x", "attribute:a not_matches x": "attribute:a !~ x",
		"attribute:a exists && attribute:b exists":    "attribute:a exists and attribute:b exists",
		"attribute:a exists || attribute:b exists":    "attribute:a exists or attribute:b exists",
		"!attribute:a exists":                         "not(attribute:a exists)",
		"NOT attribute:a EXISTS":                      "not(attribute:a exists)",
		"attribute:a Equals x AND attribute:b IN [y]": "attribute:a == x and attribute:b in [y]",
	} {
		if got := mustQuery(t, word).String(); got != symbol {
			t.Errorf("%s: prints as %s, want %s", word, got, symbol)
		}
	}
}

// not binds tightest, then and, then or.
func TestPrecedence(t *testing.T) {
	spell := strings.NewReplacer("A", "attribute:a exists", "B", "attribute:b exists", "C", "attribute:c exists")
	for query, want := range map[string]func(a, b, c bool) bool{
		"A or B and C":           func(a, b, c bool) bool { return a || b && c },
		"A and B or C":           func(a, b, c bool) bool { return a && b || c },
		"(A or B) and C":         func(a, b, c bool) bool { return (a || b) && c },
		"A and (B or C)":         func(a, b, c bool) bool { return a && (b || c) },
		"not A or B":             func(a, b, _ bool) bool { return !a || b },
		"not A and B or C":       func(a, b, c bool) bool { return !a && b || c },
		"not (A and B) or C":     func(a, b, c bool) bool { return !(a && b) || c },
		"! not !A":               func(a, _, _ bool) bool { return !a },
		"A or not B and not C":   func(a, b, c bool) bool { return a || !b && !c },
		"((A))&&((B||! C))":      func(a, b, c bool) bool { return a && (b || !c) },
		"A and not(not B or C)":  func(a, b, c bool) bool { return a && b && !c },
		"A or B or C and A":      func(a, b, c bool) bool { return a || b || c && a },
		"(A or (B or C)) and !A": func(a, b, c bool) bool { return !a && (b || c) },
	} {
		e := mustQuery(t, spell.Replace(query))
		again := mustQuery(t, e.String())
		for bits := range 8 {
			i := with()
			for k, name := range []string{"a", "b", "c"} {
				if bits&(1<<k) > 0 {
					i.attributes[name] = ""
				}
			}
			right := want(bits&1 > 0, bits&2 > 0, bits&4 > 0)
			if e.Matches(i) != right || again.Matches(i) != right {
				t.Errorf("%s with %v: %v, printed %v", query, i.attributes, e.Matches(i), again.Matches(i))
			}
		}
	}
}

func TestPrintsCanonicalForm(t *testing.T) {
	for text, want := range map[string]string{
		"attribute:a=='x'":                         "attribute:a == x",
		`attribute:a == "x y"`:                     "attribute:a == 'x y'",
		`attribute:a == "it's"`:                    `attribute:a == "it's"`,
		"attribute:a == ''":                        "attribute:a == ''",
		"attribute:a in['x',y ,\"z \"]":            "attribute:a in [x, y, 'z ']",
		"attribute:a =~ 't2.*'":                    "attribute:a =~ t2.*",
		"attribute:a =~ 'x y'":                     "attribute:a =~ 'x y'",
		"attribute:a =~ (p[2,3]|g[3,4]|f[1]).*":    "attribute:a =~ (p[2,3]|g[3,4]|f[1]).*",
		"(attribute:a =~ (b|c))":                   "attribute:a =~ (b|c)",
		"attribute:a =~ [)(]x&&attribute:b exists": "attribute:a =~ [)(]x and attribute:b exists",
		`attribute:a =~ \)x`:                       `attribute:a =~ \)x`,
		"attribute:a exists and (attribute:b exists and attribute:c exists)": "attribute:a exists and attribute:b exists and attribute:c exists",
		"(attribute:a exists or attribute:b exists) and attribute:c exists":  "(attribute:a exists or attribute:b exists) and attribute:c exists",
		"attribute:a exists or (attribute:b exists and attribute:c exists)":  "attribute:a exists or attribute:b exists and attribute:c exists",
		`attribute:a/b\c_d-e.F == x`:                                         `attribute:a/b\c_d-e.F == x`,
	} {
		e := mustQuery(t, text)
		if got := e.String(); got != want {
			t.Errorf("%s: prints as %s, want %s", text, got, want)
		}
		if again := mustQuery(t, e.String()).String(); again != want {
			t.Errorf("%s: printed twice is %s", text, again)
		}
	}
}

func TestStatic(t *testing.T) {
	for query, want := range map[string]bool{
		"attribute:a == b": true, "agentConnected == true": true, "agentVersion > 1": true,
		"registeredAt > 2018-01-01": true,
		"ec2InstanceId == i-1":      true, "runningTasksCount == 0": false, "task:group == g": false,
		"attribute:a == b and not(attribute:c exists or task:group == g)": false,
		"attribute:a == b or attribute:c exists":                          true,
	} {
		if got := mustQuery(t, query).Static(); got != want {
			t.Errorf("%s: %v", query, got)
		}
	}
}

func TestQueryHasNoPropertiesOrDirectives(t *testing.T) {
	e := mustQuery(t, "attribute:a == b")
	if len(e.PropertyNames()) > 0 || e.Directives() != (Directives{}) {
		t.Errorf("got %v, %v", e.PropertyNames(), e.Directives())
	}
	if err := e.Validate(func(func(Subject) bool) {}); err != nil {
		t.Errorf("a query is valid for any instances: %v", err)
	}
}

func TestSubjectsKnowTheirOperators(t *testing.T) {
	args := map[operator]string{opIn: "[x]", opNotIn: "[x]", opExists: "", opNotExists: ""}
	values := map[subject]string{
		subjectAgentConnected: "true", subjectAgentVersion: "1.2", subjectRegisteredAt: "2018-01-01",
		subjectRunningTasks: "1",
	}
	documented := map[subject]string{
		subjectAttribute: "== != > >= < <= exists !exists in !in =~ !~", subjectAgentConnected: "== != in !in =~ !~",
		subjectAgentVersion: "== != > >= < <=", subjectEC2InstanceID: "== != in !in =~ !~",
		subjectRegisteredAt: "== != > >= < <=",
		subjectRunningTasks: "== != > >= < <=", subjectGroup: "== != in !in =~ !~ exists !exists",
	}
	for s, name := range subjectNames {
		if s == subjectAttribute {
			name += "a"
		}
		for op, forms := range operatorForms {
			arg, list := args[op]
			if !list {
				arg = "x"
			}
			if v, ok := values[s]; ok {
				arg = strings.ReplaceAll(arg, "x", v)
			}
			text := fmt.Sprintf("%s %s %s", name, forms[1], arg)
			_, err := ParseQuery(text)
			if want := slices.Contains(strings.Fields(documented[s]), forms[0]); (err == nil) != want {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}
