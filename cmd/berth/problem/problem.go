package problem

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/decide"
	"berth/shared/operation"
	"berth/shared/scaling"
	"berth/shared/snapshot"
	"berth/shared/spelling"
)

// Kind is a kind of problem. Users read it, so it never changes.
type Kind string

// The kinds, from the most urgent.
const (
	ServiceShort         Kind = "service below desired count"
	ServiceThrottled     Kind = "service throttled"
	StartsRefused        Kind = "starts refused"
	TasksExit            Kind = "tasks keep exiting"
	DeploymentFailed     Kind = "deployment failed"
	DeploymentStuck      Kind = "deployment stuck"
	TargetRefused        Kind = "target group refuses"
	TasksUnhealthy       Kind = "tasks unhealthy"
	ScaleInWaits         Kind = "scale-in waits"
	TaskUnplaced         Kind = "task without instance"
	InstanceLost         Kind = "instance disconnected"
	InstanceUnregistered Kind = "instance not registered"
	LaunchesFail         Kind = "launches fail"
	DrainWaits           Kind = "drain waits"
	UpgradeWaits         Kind = "upgrade waits"
	UpgradeFailed        Kind = "upgrade failed"
	DeadLetters          Kind = "dead letters"
	ProviderFailed       Kind = "capacity provider failed"
	InstanceUnused       Kind = "instance unused"
	NoScaleIn            Kind = "group does not scale in"
	RuleBroken           Kind = "rule broken"
	NameUnknown          Kind = "unknown name"
)

// ranks has the position of each kind in a list of problems.
var ranks = map[Kind]int{}

func init() {
	for n, k := range []Kind{ServiceShort, ServiceThrottled, StartsRefused, TasksExit, DeploymentFailed,
		DeploymentStuck, TargetRefused, TasksUnhealthy, ScaleInWaits, TaskUnplaced,
		InstanceLost, InstanceUnregistered, LaunchesFail,
		DrainWaits, UpgradeWaits, UpgradeFailed, DeadLetters,
		ProviderFailed, InstanceUnused, NoScaleIn, RuleBroken, NameUnknown} {
		ranks[k] = n
	}
}

// Problem is one thing that is wrong.
type Problem struct {
	Kind Kind `json:"kind"`
	// Type and Name say what it is about: service, task, instance, node group, capacity provider or
	// queue.
	Type string `json:"type"`
	Name string `json:"name"`
	// What is a sentence that says what is wrong, Why one or more with the cause in numbers.
	What string `json:"what"`
	Why  string `json:"why"`
	// Since is when it began, nil if that is unknown.
	Since *time.Time `json:"since,omitempty"`
	// SinceEarlier is set if it may have begun before that: it lasts for at least so long.
	SinceEarlier bool `json:"sinceEarlier,omitempty"`
	// Count is how many tasks, instances or messages are concerned.
	Count int    `json:"count"`
	Help  []Help `json:"help"`
}

// Help is what may end a problem: in words, and as a command to copy.
type Help struct {
	What    string `json:"what"`
	Command string `json:"command"`
}

// Input is what problems are found in.
type Input struct {
	Cluster  string
	Snapshot *snapshot.Snapshot
	// Capacity is what instances come from; nil if it is unknown.
	Capacity *whatif.Capacity
	// DeadLetters are the dead-letter queues that have messages, where known.
	DeadLetters []operation.DeadLetters
	Now         time.Time
	// Callers says how a command reaches this Berth.
	Callers Callers
}

// Callers is what commands need to reach a Berth that the environment does not name, so that they
// work as they are printed. The zero value adds nothing.
type Callers struct {
	// Berth is flags of Berth's own commands, such as "--stack prod".
	Berth string
	// Proxy comes before a command of the AWS CLI that calls Berth: "berth proxy --stack prod --".
	Proxy string
	// API is flags of a command of the AWS CLI that calls Berth, Others of one that calls another
	// service: "--endpoint-url http://127.0.0.1:5252".
	API, Others string
}

// finder collects problems.
type finder struct {
	in       Input
	names    *spelling.Names
	decision map[string]scaling.Decision // by capacity provider
	blocked  map[string]*cluster.Diagnosis
	found    []Problem
}

// Find returns the problems of a cluster, the most urgent first. Placements are tried on the
// snapshot and undone, so it must not be used by others meanwhile.
func Find(in Input) []Problem {
	f := &finder{in: in, names: spelling.NewNames(in.Snapshot, providerNames(in.Capacity)...),
		decision: map[string]scaling.Decision{}, blocked: decide.DiagnoseBlocked(in.Snapshot, maxExplained),
		found: []Problem{}}
	f.decideScaling()
	for _, name := range slices.Sorted(maps.Keys(in.Snapshot.Services)) {
		if s := in.Snapshot.Services[name]; s.Status == cluster.ServiceActive {
			serviceFinder{f}.checkService(s)
		}
	}
	f.checkTasks()
	f.checkInstances()
	f.checkDrains()
	f.checkProviders()
	f.checkUpdates()
	for i := range in.DeadLetters {
		f.checkDeadLetters(&in.DeadLetters[i])
	}
	slices.SortStableFunc(f.found, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(ranks[a.Kind], ranks[b.Kind]), cmp.Compare(b.Count, a.Count),
			strings.Compare(a.Name, b.Name))
	})
	return f.found
}

func providerNames(k *whatif.Capacity) []string {
	if k == nil {
		return nil
	}
	return slices.Collect(maps.Keys(k.Providers))
}

// decideScaling asks managed scaling what it would do with each group now.
func (f *finder) decideScaling() {
	if f.in.Capacity == nil {
		return
	}
	for name, p := range f.in.Capacity.Providers {
		if !p.HasFailedCreation() && f.in.Capacity.Groups[p.Group] != nil {
			f.decision[name] = f.in.Capacity.DecideScaling(f.in.Snapshot, p, f.in.Now)
		}
	}
}

// add adds a problem with help. Since may be zero.
func (f *finder) add(p Problem, since time.Time, help ...Help) {
	if !since.IsZero() {
		since = since.UTC().Truncate(time.Second)
		p.Since = &since
	}
	p.Help = append([]Help{}, help...)
	f.found = append(f.found, p)
}

// aws returns a command of the AWS CLI for this cluster.
func (f *finder) aws(format string, args ...any) string {
	verb, rest, _ := strings.Cut(fmt.Sprintf(format, args...), " ")
	return f.api("ecs " + verb + " --cluster " + f.in.Cluster + " " + rest)
}

// api returns a command of the AWS CLI that calls Berth.
func (f *finder) api(text string) string {
	return joinWords(f.in.Callers.Proxy, "aws "+text, f.in.Callers.API)
}

// other returns a command of the AWS CLI that calls a service beside Berth.
func (f *finder) other(format string, args ...any) string {
	return joinWords("aws "+fmt.Sprintf(format, args...), f.in.Callers.Others)
}

// joinWords joins the texts that are not empty.
func joinWords(texts ...string) string {
	var words []string
	for _, t := range texts {
		if t = strings.TrimSpace(t); t != "" {
			words = append(words, t)
		}
	}
	return strings.Join(words, " ")
}

// berth returns a berth command for this cluster.
func (f *finder) berth(format string, args ...any) string {
	return joinWords("berth "+fmt.Sprintf(format, args...), "--cluster "+f.in.Cluster, f.in.Callers.Berth)
}

// QuoteArgument makes a text one argument of a shell.
func QuoteArgument(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_./:=,@", r)
	}
	if text != "" && strings.TrimLeftFunc(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// listed is how many names a sentence lists.
const listed = 5

// listNames returns the first names and how many more there are.
func listNames(names []string) string {
	slices.Sort(names)
	if more := len(names) - listed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:listed], ", "), more)
	}
	return strings.Join(names, ", ")
}

// sentence ends a text with a full stop, and begins it with a capital.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
