package doctor

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Plan is what a stack of template.yaml should have. All ids are logical ones.
type Plan struct {
	// Resources are the types of those that the stack's parameters ask for, with those that SAM
	// makes of functions.
	Resources map[string]string
	Functions map[string]PlannedFunction
	Roles     map[string]PlannedRole
	Mappings  map[string]PlannedMapping
	Rules     map[string]PlannedRule
	Schedules map[string]PlannedSchedule
	Queues    map[string]PlannedQueue
	Table     string
}

// PlannedFunction is a function with its role and its variables.
type PlannedFunction struct {
	Role      string
	Variables map[string]string
}

// PlannedRole is a role with its one policy.
type PlannedRole struct {
	PolicyName string
	Statements []Statement
}

// PlannedMapping is an event of a function that polls a queue or a stream. Queue is empty for the
// table's stream. Concurrency is how many batches it has in work at most, 1 for a stream.
type PlannedMapping struct {
	Function, Queue string
	Concurrency     int
}

// PlannedRule is a rule on a bus ("" for the default one) with its queues, and the queue of what
// it cannot deliver.
type PlannedRule struct {
	Bus         string
	Queues      []string
	DeadLetters string
}

// PlannedSchedule is a schedule that invokes a function.
type PlannedSchedule struct{ Function string }

// PlannedQueue is a queue. Of dead letters, Source is the queue that they come from, Rules says
// that they come from rules, and Schedules is the function whose scheduled runs they are.
type PlannedQueue struct {
	DeadLetters, Source string
	Rules               bool
	Schedules           string
}

// NewPlan reads a template with the parameters, conditions and resources of a stack filled in.
func NewPlan(text string, s Stack) (*Plan, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return nil, fmt.Errorf("reading template.yaml: %w", err)
	}
	template := document.Content[0]
	r := newResolver(template, s)
	p := &Plan{Resources: map[string]string{}, Functions: map[string]PlannedFunction{},
		Roles: map[string]PlannedRole{}, Mappings: map[string]PlannedMapping{}, Rules: map[string]PlannedRule{},
		Schedules: map[string]PlannedSchedule{}, Queues: map[string]PlannedQueue{}}
	shared := r.variablesOf(memberOf(memberOf(memberOf(template, "Globals"), "Function"), "Environment"))
	for id, n := range mappingOf(memberOf(template, "Resources")) {
		if c := memberOf(n, "Condition"); c != nil && !r.holds(c.Value) {
			continue
		}
		p.Resources[id] = r.types[id]
		var err error
		switch properties := r.properties[id]; r.types[id] {
		case "AWS::Serverless::Function":
			p.Resources[id] = "AWS::Lambda::Function"
			p.addFunction(r, id, properties, shared)
		case "AWS::IAM::Role":
			err = p.addRole(r, id, properties)
		case "AWS::Events::Rule":
			p.addRule(id, properties)
		case "AWS::SQS::Queue":
			p.addQueue(id, properties)
		case "AWS::DynamoDB::Table":
			p.Table = id
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s of template.yaml: %w", id, err)
		}
	}
	return p, nil
}

// variablesOf returns the variables of an environment.
func (r *resolver) variablesOf(environment *yaml.Node) map[string]string {
	out := map[string]string{}
	for name, n := range mappingOf(memberOf(environment, "Variables")) {
		if v := r.resolveNode(n); v != nil {
			out[name] = strings.Join(textsOf(v), ",")
		}
	}
	return out
}

// addFunction adds a function with what SAM makes of its events: an event Wake of the function F is
// the resource FWake.
func (p *Plan) addFunction(r *resolver, id string, n *yaml.Node, shared map[string]string) {
	f := PlannedFunction{Role: referenceOf(memberOf(n, "Role")), Variables: maps.Clone(shared)}
	maps.Copy(f.Variables, r.variablesOf(memberOf(n, "Environment")))
	p.Functions[id] = f
	async := memberOf(n, "EventInvokeConfig")
	if async != nil {
		p.Resources[id+"EventInvokeConfig"] = "AWS::Lambda::EventInvokeConfig"
	}
	failures := memberOf(memberOf(async, "DestinationConfig"), "OnFailure")
	if queue := referenceOf(memberOf(failures, "Destination")); queue != "" {
		q := p.Queues[queue]
		q.Schedules = id
		p.Queues[queue] = q
	}
	if memberOf(n, "FunctionUrlConfig") != nil {
		p.Resources[id+"Url"] = "AWS::Lambda::Url"
	}
	for name, event := range mappingOf(memberOf(n, "Events")) {
		properties := memberOf(event, "Properties")
		switch memberOf(event, "Type").Value {
		case "ScheduleV2":
			p.Resources[id+name] = "AWS::Scheduler::Schedule"
			p.Schedules[id+name] = PlannedSchedule{Function: id}
		case "SQS", "DynamoDB":
			p.Resources[id+name] = "AWS::Lambda::EventSourceMapping"
			m := PlannedMapping{Function: id, Queue: referenceOf(memberOf(properties, "Queue")), Concurrency: 1}
			if c := memberOf(memberOf(properties, "ScalingConfig"), "MaximumConcurrency"); c != nil {
				_, _ = fmt.Sscan(c.Value, &m.Concurrency) // a literal of template.yaml
			}
			p.Mappings[id+name] = m
		}
	}
}

// referenceOf returns the resource that a node refers to, by !Ref or !GetAtt.
func referenceOf(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	_, argument := intrinsicOf(n)
	if argument == nil {
		return ""
	}
	resource, _, _ := strings.Cut(argument.Value, ".")
	return resource
}

// addRole adds a role with the statements that the parameters ask for.
func (p *Plan) addRole(r *resolver, id string, n *yaml.Node) error {
	policies := memberOf(n, "Policies")
	if policies == nil || len(policies.Content) != 1 {
		return nil
	}
	policy := policies.Content[0]
	document, err := json.Marshal(r.resolveNode(memberOf(policy, "PolicyDocument")))
	if err != nil {
		return err
	}
	statements, err := ParsePolicy(string(document))
	if err != nil {
		return err
	}
	p.Roles[id] = PlannedRole{PolicyName: memberOf(policy, "PolicyName").Value, Statements: statements.Statements}
	return nil
}

// addRule adds a rule.
func (p *Plan) addRule(id string, n *yaml.Node) {
	rule := PlannedRule{Bus: referenceOf(memberOf(n, "EventBusName"))}
	if targets := memberOf(n, "Targets"); targets != nil {
		for _, t := range targets.Content {
			rule.Queues = append(rule.Queues, referenceOf(memberOf(t, "Arn")))
			rule.DeadLetters = referenceOf(memberOf(memberOf(t, "DeadLetterConfig"), "Arn"))
		}
	}
	if rule.DeadLetters != "" {
		q := p.Queues[rule.DeadLetters]
		q.Rules = true
		p.Queues[rule.DeadLetters] = q
	}
	p.Rules[id] = rule
}

// addQueue adds a queue, and notes with its dead letters where they come from.
func (p *Plan) addQueue(id string, n *yaml.Node) {
	q := p.Queues[id]
	q.DeadLetters = referenceOf(memberOf(memberOf(n, "RedrivePolicy"), "deadLetterTargetArn"))
	if p.Queues[id] = q; q.DeadLetters != "" {
		letters := p.Queues[q.DeadLetters]
		letters.Source = id
		p.Queues[q.DeadLetters] = letters
	}
}

// KeepDeadLetters removes the queues that a function reads from the plan.
func (p *Plan) KeepDeadLetters() {
	maps.DeleteFunc(p.Queues, func(id string, _ PlannedQueue) bool { return p.consumerOf(id) != "" })
}

// consumerOf returns the function that polls a queue, or "".
func (p *Plan) consumerOf(queue string) string {
	for _, id := range slices.Sorted(maps.Keys(p.Mappings)) {
		if m := p.Mappings[id]; m.Queue == queue {
			return m.Function
		}
	}
	return ""
}

// folderOf returns the name of a function as users know it: that of its role's policy.
func (p *Plan) folderOf(function string) string {
	return p.Roles[p.Functions[function].Role].PolicyName
}
