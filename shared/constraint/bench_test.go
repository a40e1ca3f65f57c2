package constraint

import "testing"

var benchQueries = []string{
	"attribute:ecs.instance-type == t2.small",
	"attribute:ecs.availability-zone in [us-east-1a, us-east-1b]",
	"attribute:ecs.instance-type =~ t2.* and attribute:ecs.availability-zone != us-east-1d",
	"attribute:ecs.instance-type =~ (t2|m4).*",
	"not(task:group == database)",
	"agentVersion >= 1.14.5",
	"registeredAt < 2018-02-13",
	"runningTasksCount < 5",
	"attribute:rank >= 5",
	"attribute:missing == x or attribute:stack == prod",
}

var benchConstraints = []string{
	"NodeType == NodeType01",
	"HasSSD == true && SomeProperty >= 4",
	"FaultDomain ^ fd:/DC0",
	"((OneProperty < 100) || ((AnotherProperty == false) && (OneProperty >= 100)))",
	"Missing == 5",
}

var benchNode = properties("NodeType", "NodeType01", "HasSSD", "true", "SomeProperty", "8", "FaultDomain",
	"fd:/DC0/Rack0",
	"OneProperty", "120", "AnotherProperty", "false")

func BenchmarkMatchesQuery(b *testing.B) { benchmarkMatches(b, ParseQuery, benchQueries, fleet['a']) }

func BenchmarkMatchesProperties(b *testing.B) {
	benchmarkMatches(b, ParseProperties, benchConstraints, benchNode)
}

func benchmarkMatches(b *testing.B, parse func(string) (*Expression, error), texts []string, s Subject) {
	for _, text := range texts {
		e, err := parse(text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e.Matches(s)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseQuery(benchQueries[2]); err != nil {
			b.Fatal(err)
		}
	}
}

func TestMatchesAllocatesNothing(t *testing.T) {
	check := func(parse func(string) (*Expression, error), texts []string, s Subject) {
		for _, text := range texts {
			e, err := parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if n := testing.AllocsPerRun(200, func() { e.Matches(s) }); n > 0 {
				t.Errorf("%s: %v allocations", text, n)
			}
		}
	}
	check(ParseQuery, benchQueries, fleet['a'])
	check(ParseQuery, benchQueries, &instance{})
	check(ParseProperties, benchConstraints, benchNode)
	check(ParseProperties, benchConstraints, &instance{})
}
