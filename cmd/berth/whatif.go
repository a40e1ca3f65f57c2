package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/cmd/berth/whatif"
	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/placement"
)

// whatifCommand asks where tasks would go.
type whatifCommand struct {
	sourceFlags
	Service        string   `help:"Ask for more tasks of this service." placeholder:"NAME"`
	TaskDefinition string   `help:"Ask for tasks of this definition: family:revision, or a family." placeholder:"NAME"`
	CPU            int64    `help:"Ask for tasks of this size: ECS CPU units (1024 are one vCPU)." placeholder:"UNITS"`
	Memory         int64    `help:"MiB of memory." placeholder:"MIB"`
	GPUs           int      `help:"Whole GPUs." name:"gpus" placeholder:"N"`
	GPUShare       int      `help:"Thousandths of one GPU (1-999)." name:"gpu-share" placeholder:"MILLI"`
	Port           []string `help:"Static host port: 80/tcp. Repeatable." sep:"none" placeholder:"PORT"`
	Metric         []string `help:"Load of a metric: connections=100. Repeatable." sep:"none" placeholder:"NAME=LOAD"`

	Constraint   string   `help:"Node constraint, as the tag berth:constraint has it." placeholder:"EXPR"`
	MemberOf     []string `help:"Expression of the cluster query language. Repeatable." sep:"none" placeholder:"EXPR"`
	Distinct     bool     `help:"Each on an instance of its own: distinctInstance."`
	Strategy     []string `help:"random, spread:FIELD or binpack:FIELD, such as spread:attribute:ecs.availability-zone. Repeatable." sep:"none" placeholder:"TYPE:FIELD"`
	DomainPolicy string   `help:"Domain policy, as the tag berth:domain-policy has it." placeholder:"POLICY"`
	Scoring      string   `help:"Order among instances that all else holds equal: ${scorings}." placeholder:"NAME"`

	Count    int    `default:"1" help:"How many tasks (1-1000)."`
	Instance string `help:"Say why they do not go to this instance." placeholder:"ID"`
	Moves    bool   `help:"Print the moves that the cluster would make, and those that would make room."`
	JSON     bool   `help:"As JSON."`

	question whatif.Question
}

// Help is the end of `berth whatif --help`.
func (w *whatifCommand) Help() string {
	return `Says where tasks would go and why, and why not elsewhere; with neither tasks nor --moves it only saves. Nothing is changed.
Rules are added to the service's or definition's own; a strategy, policy, metrics, scoring or node constraint replaces its.

Exit code: 0 when all tasks would find an instance, 3 when some would not, 1 for a failure, 2 for bad flags.

JSON: tasks, count, placed [instance, gpus], unplaced, explanation (of the first: diagnosis, best, runnerUp [instance, key
[name, value, text]], decidedBy, notKept, text), diagnosis (of the unplaced: evaluated, feasible, unplaced, rejected [filter,
count, need, best, detail], closestInstance, text), instance (instance, chosen, feasible, refused, key, text), moves (underWay,
planned [task, service, from, to, via, mode, cost, after, why], violations, unrepaired, exact, room [moves, places, exact,
automatic]).

Examples:
  berth whatif --service web --count 3
  berth whatif --cpu 512 --memory 1024 --port 80/tcp --instance 4f6a0b91c2d34e5f8a7b6c5d4e3f2a1b
  berth whatif --task-definition web:7 --member-of 'attribute:disk == ssd' --strategy binpack:memory
  berth whatif --save now.jsonl; berth whatif --snapshot now.jsonl --service web --moves
  berth whatif --trace --gpus 1 --cpu 4096 --memory 8192 --count 100 --json`
}

// maxCount is how many tasks one question has at most.
const maxCount = 1000

// Validate reads the flags, and names the one that is wrong.
func (w *whatifCommand) Validate() error {
	if err := w.sourceFlags.Validate(); err != nil {
		return err
	}
	q := &w.question
	*q = whatif.Question{Service: w.Service, Definition: w.TaskDefinition, Count: w.Count, Instance: w.Instance,
		Moves: w.Moves}
	if w.Count < 1 || w.Count > maxCount {
		return fmt.Errorf("--count is %d, expected 1 to %d", w.Count, maxCount)
	}
	for _, read := range []func(*whatif.Question) error{w.parseSize, w.parsePorts, w.parseRules, w.parseExpressions,
		w.parseStrategies} {
		if err := read(q); err != nil {
			return err
		}
	}
	return w.checkKinds()
}

// checkKinds refuses questions about two kinds of tasks, and about none.
func (w *whatifCommand) checkKinds() error {
	sized := w.CPU != 0 || w.Memory != 0 || w.GPUs != 0 || w.GPUShare != 0 || len(w.Port) > 0
	switch {
	case w.Service != "" && w.TaskDefinition != "":
		return fmt.Errorf("--task-definition is %q, expected none beside --service", w.TaskDefinition)
	case sized && w.Service+w.TaskDefinition != "":
		return errors.New("--cpu, --memory, --gpus, --gpu-share and --port are the size of tasks that are of no service or definition")
	case w.question.IsEmpty() && w.Instance != "":
		return fmt.Errorf("--instance is %q, expected with --service, --task-definition or a size", w.Instance)
	case w.question.IsEmpty() && !w.Moves && w.Save == "":
		return errors.New("nothing is asked, expected --service, --task-definition, a size (--cpu, --memory, --gpus, --port, --metric), --moves or --save")
	}
	return nil
}

// Bounds of sizes: beyond them no instance has anything.
const (
	maxUnits  = 10_000_000
	maxMiB    = 100_000_000
	maxGPUs   = 1024
	wholeGPU  = 1000
	lastPort  = 65535
	protoText = "a port and a protocol such as 80/tcp or 53/udp"
)

func (w *whatifCommand) parseSize(q *whatif.Question) error {
	switch {
	case w.CPU < 0 || w.CPU > maxUnits:
		return fmt.Errorf("--cpu is %d, expected 0 to %d CPU units", w.CPU, maxUnits)
	case w.Memory < 0 || w.Memory > maxMiB:
		return fmt.Errorf("--memory is %d, expected 0 to %d MiB", w.Memory, maxMiB)
	case w.GPUs < 0 || w.GPUs > maxGPUs:
		return fmt.Errorf("--gpus is %d, expected 0 to %d", w.GPUs, maxGPUs)
	case w.GPUShare < 0 || w.GPUShare >= wholeGPU:
		return fmt.Errorf("--gpu-share is %d, expected 1 to 999 thousandths of one GPU", w.GPUShare)
	case w.GPUShare > 0 && w.GPUs > 0:
		return fmt.Errorf("--gpu-share is %d, expected none beside --gpus: a share is of one GPU", w.GPUShare)
	}
	q.Needs = cluster.Resources{CPU: w.CPU * cluster.CPUUnit, Memory: w.Memory, GPUs: w.GPUs}
	if w.GPUShare > 0 {
		q.Needs.GPUs, q.Needs.GPUMilli = 1, int32(w.GPUShare)
	}
	return nil
}

func (w *whatifCommand) parsePorts(q *whatif.Question) error {
	for _, text := range w.Port {
		number, protocol, _ := strings.Cut(text, "/")
		n, err := strconv.Atoi(number)
		p := cluster.Protocol(protocol)
		if err != nil || n < 1 || n > lastPort || p != cluster.TCP && p != cluster.UDP {
			return fmt.Errorf("--port is %q, expected %s", text, protoText)
		}
		q.Ports = append(q.Ports, cluster.Port{Number: n, Protocol: p})
	}
	return nil
}

// parseRules reads what has a list of values.
func (w *whatifCommand) parseRules(q *whatif.Question) error {
	if w.DomainPolicy != "" && !slices.Contains(cluster.DomainPolicies, cluster.DomainPolicy(w.DomainPolicy)) {
		return fmt.Errorf("--domain-policy is %q, expected one of %v", w.DomainPolicy, cluster.DomainPolicies)
	}
	if w.Scoring != "" && !slices.Contains(placement.Scorings(), w.Scoring) {
		return fmt.Errorf("--scoring is %q, expected one of %s", w.Scoring, strings.Join(placement.Scorings(), ", "))
	}
	metrics, err := cluster.ReadMetrics(strings.Join(w.Metric, ","))
	if e := new(cluster.Error); errors.As(err, &e) {
		return fmt.Errorf("--metric is %q: %s", strings.Join(w.Metric, ","), e.Message)
	}
	q.Rules.DomainPolicy, q.Rules.Scoring, q.Rules.Metrics = cluster.DomainPolicy(w.DomainPolicy), w.Scoring, metrics
	return nil
}

func (w *whatifCommand) parseExpressions(q *whatif.Question) error {
	if _, err := constraint.ParseProperties(w.Constraint); w.Constraint != "" && err != nil {
		return fmt.Errorf("--constraint is %q, which cannot be read: %w", w.Constraint, err)
	}
	q.Rules.NodeConstraint = w.Constraint
	for _, text := range w.MemberOf {
		if _, err := constraint.ParseQuery(text); err != nil {
			return fmt.Errorf("--member-of is %q, which cannot be read: %w", text, err)
		}
		q.Rules.Constraints = append(q.Rules.Constraints,
			cluster.PlacementConstraint{Type: cluster.MemberOf, Expression: text})
	}
	if w.Distinct {
		q.Rules.Constraints = append(q.Rules.Constraints, cluster.PlacementConstraint{Type: cluster.DistinctInstance})
	}
	return nil
}

const attributeField = "attribute:"

func (w *whatifCommand) parseStrategies(q *whatif.Question) error {
	if len(w.Strategy) > cluster.MaxStrategies {
		return fmt.Errorf("--strategy is given %d times, expected at most %d", len(w.Strategy), cluster.MaxStrategies)
	}
	for _, text := range w.Strategy {
		kind, field, _ := strings.Cut(text, ":")
		name, isAttribute := strings.CutPrefix(field, attributeField)
		known := false
		switch kind {
		case cluster.StrategyRandom:
			known = field == ""
		case cluster.StrategyBinpack:
			known = strings.EqualFold(field, "cpu") || strings.EqualFold(field, "memory")
		case cluster.StrategySpread:
			known = field == "instanceId" || field == "host" || isAttribute && name != ""
		}
		if !known {
			return fmt.Errorf("--strategy is %q, expected random, binpack:cpu, binpack:memory, spread:instanceId, spread:host or spread:attribute:NAME", text)
		}
		q.Rules.Strategies = append(q.Rules.Strategies, cluster.PlacementStrategy{Type: kind, Field: field})
	}
	return nil
}

// errUnplaced ends the program with a code of its own; the answer has said all.
var errUnplaced = errors.New("some tasks would find no instance")

// Run asks and prints.
func (w *whatifCommand) Run(ctx context.Context, s *streams) error {
	say := newProgress(s.err, time.Now)
	defer say.finish()
	src, err := w.openSource(ctx, say)
	if err != nil {
		return err
	}
	if w.question.IsEmpty() && !w.Moves {
		return nil // saved
	}
	if w.TaskDefinition != "" && src.live != nil {
		if w.question.Definition, err = whatif.LoadDefinition(ctx, src.live, src.snap, w.TaskDefinition); err != nil {
			return fmt.Errorf("--task-definition: %w", err)
		}
	}
	say.report("placing")
	answer, err := whatif.Ask(src.snap, &w.question)
	say.finish()
	if err != nil {
		return nameFlag(err)
	}
	if w.JSON {
		err = json.NewEncoder(s.out).Encode(answer)
	} else {
		err = answer.Print(s.out)
	}
	if err == nil && answer.Unplaced > 0 {
		return errUnplaced
	}
	return err
}

// nameFlag puts the flag before what it named and is not there.
func nameFlag(err error) error {
	var missing *whatif.NotFound
	if !errors.As(err, &missing) {
		return err
	}
	return fmt.Errorf("--%s: %w", strings.ReplaceAll(missing.Kind, " ", "-"), err)
}
