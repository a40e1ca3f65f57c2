package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/cmd/berth/whatif"
	"berth/shared/choice"
	"berth/shared/cluster"
	"berth/shared/constraint"
	"berth/shared/snapshot"
	"berth/shared/spelling"
)

// whatifCommand shows where tasks would go. It places them here, on a copy of the cluster, by the
// engine that Berth places with. It can also save that copy, to ask about it later or elsewhere.
type whatifCommand struct {
	sourceFlags
	Service        string   `help:"Ask for more tasks of this service." placeholder:"NAME"`
	TaskDefinition string   `help:"Ask for tasks of this definition: family:revision, or a family." placeholder:"NAME"`
	CPU            int64    `help:"Ask for tasks of this size: ECS CPU units (1024 are one vCPU)." placeholder:"UNITS"`
	Memory         int64    `help:"MiB of memory." placeholder:"MIB"`
	GPUs           int      `help:"Whole GPUs." name:"gpus" placeholder:"N"`
	GPUShare       int      `help:"Thousandths of one GPU (1-999)." name:"gpu-share" placeholder:"MILLI"`
	Port           []string `help:"Static host port such as 80/tcp. Repeatable." sep:"none" placeholder:"PORT"`
	Metric         []string `help:"Load such as connections=100. Repeatable." sep:"none" placeholder:"NAME=LOAD"`

	whatifRules

	Count    int    `default:"1" help:"Number of tasks (1-1000)."`
	Instance string `help:"Also explain why the tasks do not go to this instance." placeholder:"ID"`
	Moves    bool   `help:"Print the moves that the cluster would make, and those that would make room."`
	JSON     bool   `help:"Print JSON."`

	question whatif.Question
}

// whatifRules are the flags of placement rules.
type whatifRules struct {
	Constraint   string   `help:"Node constraint, as in the tag berth:constraint." placeholder:"EXPR"`
	MemberOf     []string `help:"Expression of the cluster query language. Repeatable." sep:"none" placeholder:"EXPR"`
	Distinct     bool     `help:"Place each task on an instance of its own: distinctInstance."`
	Strategy     []string `help:"random, spread:FIELD, binpack:FIELD. Repeatable." sep:"none" placeholder:"TYPE:FIELD"`
	DomainPolicy string   `help:"Domain policy, as in the tag berth:domain-policy." placeholder:"POLICY"`
	Scoring      string   `help:"Order of instances that are otherwise equal: ${scorings}." placeholder:"NAME"`
	Tolerations  string   `help:"Tolerations of taints, as in the tag berth:tolerations." placeholder:"LIST"`
}

// maxCount is the most tasks that one question may ask for.
const maxCount = 1000

// Validate turns the flags into a question, and names the one that is wrong.
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
	// The first mistake is reported, in the order of the flags in the help.
	for _, read := range []func(*whatif.Question) error{w.parseTaskSize, w.parseHostPorts, w.parsePlacementRules,
		w.parseExpressions,
		w.parseStrategies} {
		if err := read(q); err != nil {
			return err
		}
	}
	return w.checkKinds()
}

// checkKinds refuses questions about several kinds of tasks, or about nothing.
func (w *whatifCommand) checkKinds() error {
	// A metric can be added to a service's own, so --metric is not a size here.
	sized := w.CPU != 0 || w.Memory != 0 || w.GPUs != 0 || w.GPUShare != 0 || len(w.Port) > 0
	switch {
	case w.Service != "" && w.TaskDefinition != "":
		return fmt.Errorf("--task-definition is %q, expected none beside --service", w.TaskDefinition)
	case sized && w.Service+w.TaskDefinition != "":
		return errors.New("--cpu, --memory, --gpus, --gpu-share, --port describe tasks of no service or definition, " +
			"expected none beside --service or --task-definition")
	case w.question.IsEmpty() && w.Instance != "":
		return fmt.Errorf("--instance is %q, expected with --service, --task-definition or a size", w.Instance)
	case w.question.IsEmpty() && !w.Moves && w.sourceFlags.Save == "":
		return errors.New("nothing is asked, expected --service, --task-definition, a size (--cpu, --memory, --gpus, " +
			"--port, --metric), --moves or --save")
	}
	return nil
}

// The bounds of sizes. No instance is larger.
const (
	maxUnits = 10_000_000
	maxMiB   = 100_000_000
	maxGPUs  = 1024
	wholeGPU = 1000
	lastPort = 65535
	portText = "a port and a protocol such as 80/tcp or 53/udp"
)

// parseTaskSize reads the flags of a size. A share of a GPU is one GPU of which only a part is
// taken.
func (w *whatifCommand) parseTaskSize(q *whatif.Question) error {
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

// parseHostPorts reads static host ports.
func (w *whatifCommand) parseHostPorts(q *whatif.Question) error {
	for _, text := range w.Port {
		number, protocol, _ := strings.Cut(text, "/")
		n, err := strconv.Atoi(number)
		p := cluster.Protocol(protocol)
		if err != nil || n < 1 || n > lastPort || p != cluster.TCP && p != cluster.UDP {
			return fmt.Errorf("--port is %q, expected %s", text, portText)
		}
		q.Ports = append(q.Ports, cluster.Port{Number: n, Protocol: p})
	}
	return nil
}

// parsePlacementRules reads the flags that accept one of a list of values, and the metrics.
func (w *whatifCommand) parsePlacementRules(q *whatif.Question) error {
	if w.DomainPolicy != "" && !slices.Contains(cluster.DomainPolicies, cluster.DomainPolicy(w.DomainPolicy)) {
		return fmt.Errorf("--domain-policy is %q, expected %s%s", w.DomainPolicy, choice.List(cluster.DomainPolicies),
			choice.DidYouMean(w.DomainPolicy, cluster.DomainPolicies))
	}
	if w.Scoring != "" {
		if err := checkScoring("--scoring", w.Scoring); err != nil {
			return err
		}
	}
	metrics, err := cluster.ReadMetrics(strings.Join(w.Metric, ","))
	if e := new(cluster.Error); errors.As(err, &e) {
		return fmt.Errorf("--metric is %q: %s", strings.Join(w.Metric, ","), e.Message)
	}
	tolerations, err := cluster.ReadTolerations(w.Tolerations)
	if e := new(cluster.Error); errors.As(err, &e) {
		return fmt.Errorf("--tolerations is %q: %s", w.Tolerations, e.Message)
	}
	q.Rules.Tolerations = tolerations
	q.Rules.DomainPolicy, q.Rules.Scoring, q.Rules.Metrics = cluster.DomainPolicy(w.DomainPolicy), w.Scoring, metrics
	return nil
}

// parseExpressions reads constraints. They are parsed here only to name the flag of a wrong one.
func (w *whatifCommand) parseExpressions(q *whatif.Question) error {
	if _, err := constraint.ParseProperties(w.Constraint); w.Constraint != "" && err != nil {
		return fmt.Errorf("--constraint is %q, expected an expression: %w", w.Constraint, err)
	}
	q.Rules.NodeConstraint = w.Constraint
	for _, text := range w.MemberOf {
		if _, err := constraint.ParseQuery(text); err != nil {
			return fmt.Errorf("--member-of is %q, expected an expression: %w", text, err)
		}
		q.Rules.Constraints = append(q.Rules.Constraints,
			cluster.PlacementConstraint{Type: cluster.MemberOf, Expression: text})
	}
	if w.Distinct {
		q.Rules.Constraints = append(q.Rules.Constraints, cluster.PlacementConstraint{Type: cluster.DistinctInstance})
	}
	return nil
}

// attributeField begins the field of a spread over an attribute.
const attributeField = "attribute:"

// strategies are those without an attribute's name.
var strategies = []string{"random", "binpack:cpu", "binpack:memory", "spread:instanceId", "spread:host"}

// parseStrategies reads placement strategies, by ECS's rules: which types take which fields, and
// how many.
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
			return fmt.Errorf("--strategy is %q, expected random, binpack:cpu, binpack:memory, spread:instanceId, "+
				"spread:host or spread:attribute:NAME%s", text, choice.DidYouMean(text, strategies))
		}
		q.Rules.Strategies = append(q.Rules.Strategies, cluster.PlacementStrategy{Type: kind, Field: field})
	}
	return nil
}

// errUnplaced ends the program with an exit code of its own. The answer has said why.
var errUnplaced = errors.New("some tasks would find no instance")

// Run saves the cluster if asked to, and answers the question if there is one.
func (w *whatifCommand) Run(ctx context.Context, s *streams) error {
	p := newProgress(s.err, time.Now)
	defer p.clearReport()
	src, err := w.openClusterSource(ctx, p)
	if err != nil || w.question.IsEmpty() && !w.Moves {
		return err
	}
	// A definition that no task of the cluster uses is not in the snapshot.
	if w.TaskDefinition != "" && src.live != nil {
		if w.question.Definition, err = whatif.LoadDefinition(ctx, src.live, src.snap, w.TaskDefinition); err != nil {
			return fmt.Errorf("--task-definition: %w", err)
		}
	}
	if w.question.Instance, err = src.nameOf(w.question.Instance); err != nil {
		return fmt.Errorf("--instance: %w", err)
	}
	w.warnOfUnknownNames(src.snap, s.err)
	p.reportProgress("placing")
	answer, err := whatif.Ask(src.snap, &w.question)
	p.clearReport()
	if err != nil {
		return addFlagToError(err)
	}
	if err := printAnswer(s.out, w.JSON, answer); err != nil || answer.Unplaced == 0 {
		return err
	}
	// The answer has been printed; the error only sets the exit code.
	return errUnplaced
}

// warnOfUnknownNames names what the flags name and no instance has, with the nearest that exists.
// The question is answered all the same: an instance with that name may come.
func (w *whatifCommand) warnOfUnknownNames(snap *snapshot.Snapshot, to io.Writer) {
	names := spelling.NewNames(snap)
	unknown := names.CheckRules(w.question.Rules, nil)
	unknown = append(unknown, names.CheckLoads(w.question.Rules.Metrics)...)
	if w.TaskDefinition != "" {
		unknown = append(unknown, names.CheckFamily(w.question.Definition)...)
	}
	for _, u := range unknown {
		fmt.Fprintf(to, "berth: warning: %s\n", u)
	}
}

// addFlagToError adds the flag to an error about something that does not exist.
func addFlagToError(err error) error {
	var missing *whatif.NotFound
	if !errors.As(err, &missing) {
		return err
	}
	return fmt.Errorf("--%s: %w", strings.ReplaceAll(missing.Kind, " ", "-"), err)
}
