package embedded_test

import (
	"strings"
	"testing"

	"berth/shared/embedded"
)

func TestPatternMatches(t *testing.T) {
	const task = `{"source": "aws.ecs", "detail": {"lastStatus": "RUNNING", "startedBy": "berth/3f9/1-0", "cpu": 512, "ok": true,
		"none": null, "empty": [], "text": "", "containers": [{"name": "web", "exit": 0}, {"name": "log", "exit": 137}], "gpu": ["a", "b"]}}`
	for _, c := range []struct {
		pattern string
		want    bool
	}{
		{`{"source": ["aws.ecs"]}`, true},
		{`{"source": ["aws.ec2", "aws.ecs"]}`, true},
		{`{"source": ["aws.ec2"]}`, false},
		{`{"source": ["aws.ecs"], "detail": {"lastStatus": ["STOPPED"]}}`, false},
		{`{"detail": {"cpu": [512]}}`, true},
		{`{"detail": {"cpu": [512.0]}}`, true},
		{`{"detail": {"cpu": ["512"]}}`, false},
		{`{"detail": {"ok": [true]}}`, true},
		{`{"detail": {"ok": [false]}}`, false},
		{`{"detail": {"none": [null]}}`, true},
		{`{"detail": {"missing": [null]}}`, false},
		{`{"detail": {"text": [""]}}`, true},

		{`{"detail": {"startedBy": [{"prefix": "berth/"}]}}`, true},
		{`{"detail": {"startedBy": [{"prefix": "ecs-svc/"}]}}`, false},
		{`{"detail": {"cpu": [{"prefix": "5"}]}}`, false},
		{`{"detail": {"startedBy": [{"suffix": "/1-0"}]}}`, true},
		{`{"detail": {"startedBy": [{"suffix": "/1-1"}]}}`, false},

		{`{"detail": {"lastStatus": [{"anything-but": "STOPPED"}]}}`, true},
		{`{"detail": {"lastStatus": [{"anything-but": ["PENDING", "RUNNING"]}]}}`, false},
		{`{"detail": {"cpu": [{"anything-but": 512}]}}`, false},
		{`{"detail": {"cpu": [{"anything-but": [1, 2]}]}}`, true},
		{`{"detail": {"missing": [{"anything-but": "x"}]}}`, false},
		{`{"detail": {"startedBy": [{"anything-but": {"prefix": "berth/"}}]}}`, false},
		{`{"detail": {"startedBy": [{"anything-but": {"prefix": ["aws/", "berth/"]}}]}}`, false},
		{`{"detail": {"startedBy": [{"anything-but": {"prefix": "ecs-svc/"}}]}}`, true},
		{`{"detail": {"startedBy": [{"anything-but": {"suffix": "-0"}}]}}`, false},

		{`{"detail": {"startedBy": [{"exists": true}]}}`, true},
		{`{"detail": {"missing": [{"exists": true}]}}`, false},
		{`{"detail": {"missing": [{"exists": false}]}}`, true},
		{`{"detail": {"startedBy": [{"exists": false}]}}`, false},
		{`{"detail": {"none": [{"exists": true}]}}`, true},
		{`{"detail": {"empty": [{"exists": true}]}}`, false},
		{`{"detail": [{"exists": true}]}`, false}, // an object is no value
		{`{"other": {"missing": [{"exists": false}]}}`, true},
		{`{"source": {"missing": [{"exists": false}]}}`, true},

		{`{"detail": {"cpu": [{"numeric": [">", 256, "<=", 512]}]}}`, true},
		{`{"detail": {"cpu": [{"numeric": [">", 512]}]}}`, false},
		{`{"detail": {"cpu": [{"numeric": ["=", 512]}]}}`, true},
		{`{"detail": {"cpu": [{"numeric": ["<", 512]}]}}`, false},
		{`{"detail": {"cpu": [{"numeric": [">=", 512]}]}}`, true},
		{`{"detail": {"text": [{"numeric": [">", 0]}]}}`, false},

		{`{"detail": {"gpu": ["b"]}}`, true},
		{`{"detail": {"gpu": ["c"]}}`, false},
		{`{"detail": {"gpu": [{"anything-but": "a"}]}}`, true},
		{`{"detail": {"containers": {"exit": [{"numeric": [">", 0]}]}}}`, true},
		{`{"detail": {"containers": {"name": ["log"], "exit": [137]}}}`, true},
		{`{"detail": {"containers": {"name": ["web"], "exit": [137]}}}`, false}, // in one and the same element

		{`{"detail": {"$or": [{"cpu": [1]}, {"lastStatus": ["RUNNING"]}]}}`, true},
		{`{"detail": {"$or": [{"cpu": [1]}, {"lastStatus": ["STOPPED"]}]}}`, false},
		{`{"detail": {"ok": [false], "$or": [{"cpu": [512]}, {"cpu": [1]}]}}`, false},
		{`{"$or": [{"source": ["x"]}, {"detail": {"$or": [{"cpu": [1]}, {"ok": [true]}]}}]}`, true},
	} {
		p, err := embedded.ParsePattern(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		if got := p.MatchesEvent([]byte(task)); got != c.want {
			t.Errorf("%s: got %v, want %v", c.pattern, got, c.want)
		}
	}
	p := must(embedded.ParsePattern(`{"detail": {"missing": [{"exists": false}]}}`))
	for _, event := range []string{"", "{", "null x"} {
		if p.MatchesEvent([]byte(event)) {
			t.Errorf("%q passes, and is not JSON", event)
		}
	}
}

func TestPatternRefusesUnknownOperators(t *testing.T) {
	for pattern, place := range map[string]string{
		`{"a": `:                               "pattern: unexpected end",
		`[]`:                                   "pattern: must be an object",
		`{}`:                                   "pattern: must be an object",
		`{"a": {}}`:                            "pattern.a: must be an object",
		`{"a": "b"}`:                           "pattern.a: must be an object",
		`{"a": []}`:                            "pattern.a: must have at least one value",
		`{"a": {"b": [["c"]]}}`:                "pattern.a.b[0]: must be a string",
		`{"a": ["x", {"wildcard": "b*"}]}`:     "pattern.a[1].wildcard: this operator is not supported",
		`{"a": [{"equals-ignore-case": "b"}]}`: "pattern.a[0].equals-ignore-case: this operator",
		`{"a": [{"cidr": "10.0.0.0/8"}]}`:      "pattern.a[0].cidr: this operator",
		`{"a": [{"prefix": "b", "suffix": "c"}]}`: "pattern.a[0]: must have exactly one operator",
		`{"a": [{}]}`:                                   "pattern.a[0]: must have exactly one operator",
		`{"a": [{"prefix": 5}]}`:                        "pattern.a[0].prefix: must be a string",
		`{"a": [{"prefix": ["b"]}]}`:                    "pattern.a[0].prefix: must be a string",
		`{"a": [{"prefix": ""}]}`:                       "pattern.a[0].prefix: must be a string that is not empty",
		`{"a": [{"prefix": {"equals-ignore-case":1}}]}`: "pattern.a[0].prefix: must be a string",
		`{"a": [{"exists": "yes"}]}`:                    "pattern.a[0].exists: must be true or false",
		`{"a": [{"numeric": []}]}`:                      "pattern.a[0].numeric: must be one or two pairs",
		`{"a": [{"numeric": ["~", 1]}]}`:                "pattern.a[0].numeric[0]: must be one of",
		`{"a": [{"numeric": [">", "1"]}]}`:              "pattern.a[0].numeric[0]: must be one of",
		`{"a": [{"anything-but": []}]}`:                 "pattern.a[0].anything-but: must name at least one value",
		`{"a": [{"anything-but": {"wildcard": "x"}}]}`:  "pattern.a[0].anything-but.wildcard: this operator",
		`{"a": [{"anything-but": {}}]}`:                 "pattern.a[0].anything-but: must name at least one value",
		`{"a": [{"anything-but": {"prefix": []}}]}`:     "pattern.a[0].anything-but.prefix: must name at least one",
		`{"a": [{"anything-but": null}]}`:               "pattern.a[0].anything-but: must be strings",
		`{"$or": [{"a": [1]}]}`:                         "pattern.$or: must be a list of at least two",
		`{"b": {"$or": [{"a": [1]}, {"c": 5}]}}`:        "pattern.b.$or[1].c: must be an object",
	} {
		if _, err := embedded.ParsePattern(pattern); err == nil || !strings.HasPrefix(err.Error(), place) {
			t.Errorf("%s: got %v, want an error that begins with %q", pattern, err, place)
		}
	}
}

func FuzzPattern(f *testing.F) {
	f.Add(`{"a": [{"anything-but": {"prefix": "b"}}], "$or": [{"c": [1]}, {"d": {"e": [null]}}]}`,
		`{"a": ["c"], "d": [{"e": null}]}`)
	f.Fuzz(func(_ *testing.T, pattern, event string) {
		if p, err := embedded.ParsePattern(pattern); err == nil {
			p.MatchesEvent([]byte(event))
		}
	})
}
