package doctor

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// resolver fills the parameters, conditions and resources of a stack into parts of its template.
type resolver struct {
	stack      Stack
	pseudo     map[string]string
	parameters map[string]any // string or []any
	conditions map[string]*yaml.Node
	types      map[string]string // of resources, by logical id
	properties map[string]*yaml.Node
}

// place returns where the stack is, from its id, such as
// arn:aws:cloudformation:us-east-1:123456789012:stack/berth/...
func (s Stack) place() (partition, region, account string, ok bool) {
	parts := strings.SplitN(s.ID, ":", 6)
	if len(parts) != 6 {
		return "", "", "", false
	}
	return parts[1], parts[3], parts[4], true
}

// newResolver reads the sections of a template that others refer to.
func newResolver(template *yaml.Node, s Stack) *resolver {
	r := &resolver{stack: s, pseudo: map[string]string{"AWS::StackName": s.Name, "AWS::StackId": s.ID},
		parameters: map[string]any{}, conditions: mappingOf(memberOf(template, "Conditions")),
		types: map[string]string{}, properties: map[string]*yaml.Node{}}
	if partition, region, account, ok := s.place(); ok {
		r.pseudo["AWS::Partition"], r.pseudo["AWS::Region"], r.pseudo["AWS::AccountId"] = partition, region, account
	}
	for name, p := range mappingOf(memberOf(template, "Parameters")) {
		value, given := s.Parameters[name]
		if d := memberOf(p, "Default"); !given && d != nil {
			value = d.Value
		}
		if r.parameters[name] = value; memberOf(p, "Type").Value == "CommaDelimitedList" {
			list := []any{}
			for _, item := range strings.Split(value, ",") {
				list = append(list, strings.TrimSpace(item))
			}
			r.parameters[name] = list
		}
	}
	for id, n := range mappingOf(memberOf(template, "Resources")) {
		r.types[id], r.properties[id] = memberOf(n, "Type").Value, memberOf(n, "Properties")
	}
	return r
}

// memberOf returns a member of a mapping, or nil.
func memberOf(n *yaml.Node, name string) *yaml.Node { return mappingOf(n)[name] }

// mappingOf returns the members of a mapping.
func mappingOf(n *yaml.Node) map[string]*yaml.Node {
	out := map[string]*yaml.Node{}
	if n == nil || n.Kind != yaml.MappingNode {
		return out
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		out[n.Content[i].Value] = n.Content[i+1]
	}
	return out
}

// intrinsicOf returns the function of CloudFormation that a node calls, with its argument:
// !Ref X, {Ref: X} and {Fn::If: [...]}.
func intrinsicOf(n *yaml.Node) (name string, argument *yaml.Node) {
	if strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!") {
		plain := *n
		plain.Tag = ""
		return strings.TrimPrefix(n.Tag, "!"), &plain
	}
	if n.Kind == yaml.MappingNode && len(n.Content) == 2 {
		key := n.Content[0].Value
		if short, isFunction := strings.CutPrefix(key, "Fn::"); isFunction || key == "Ref" {
			return short, n.Content[1]
		}
	}
	return "", nil
}

// resolveNode returns the value of a node: string, []any or map[string]any. It is nil for
// AWS::NoValue: what has that is left out.
func (r *resolver) resolveNode(n *yaml.Node) any {
	if n == nil {
		return nil
	}
	if name, argument := intrinsicOf(n); name != "" {
		return r.callFunction(name, argument)
	}
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		for key, value := range mappingOf(n) {
			if v := r.resolveNode(value); v != nil {
				out[key] = v
			}
		}
		return out
	case yaml.SequenceNode:
		out := []any{}
		for _, item := range n.Content {
			if v := r.resolveNode(item); v != nil {
				out = append(out, v)
			}
		}
		return out
	}
	return n.Value
}

// callFunction carries out a function of CloudFormation. One that template.yaml does not use has no
// value.
func (r *resolver) callFunction(name string, argument *yaml.Node) any {
	switch name {
	case "Ref":
		return r.resolveRef(argument.Value)
	case "Sub":
		return substitution.ReplaceAllStringFunc(argument.Value, func(part string) string {
			name := part[2 : len(part)-1]
			if resource, attribute, isAttribute := strings.Cut(name, "."); isAttribute {
				return r.attributeOf(resource, attribute)
			}
			return fmt.Sprint(r.resolveRef(name))
		})
	case "GetAtt":
		if argument.Kind == yaml.SequenceNode && len(argument.Content) == 2 {
			return r.attributeOf(argument.Content[0].Value, argument.Content[1].Value)
		}
		resource, attribute, _ := strings.Cut(argument.Value, ".")
		return r.attributeOf(resource, attribute)
	case "If":
		if len(argument.Content) == 3 {
			if r.holds(argument.Content[0].Value) {
				return r.resolveNode(argument.Content[1])
			}
			return r.resolveNode(argument.Content[2])
		}
	case "Join":
		if len(argument.Content) == 2 {
			list, _ := r.resolveNode(argument.Content[1]).([]any)
			return strings.Join(textsOf(list), argument.Content[0].Value)
		}
	}
	return nil
}

var substitution = regexp.MustCompile(`\$\{[^}]+\}`)

// textsOf returns a value, or the values of a list, as texts.
func textsOf(v any) []string {
	var out []string
	switch x := v.(type) {
	case string:
		out = append(out, x)
	case []any:
		for _, item := range x {
			out = append(out, textsOf(item)...)
		}
	}
	return out
}

// resolveRef returns the value of a parameter, or the physical id of a resource.
func (r *resolver) resolveRef(name string) any {
	if name == "AWS::NoValue" {
		return nil
	}
	if text, ok := r.pseudo[name]; ok {
		return text
	}
	if v, ok := r.parameters[name]; ok {
		return v
	}
	return r.stack.Resources[name].ID
}

// arnForms are the ARNs of resources by their type, after the partition. %s is the physical id.
var arnForms = map[string]string{
	"AWS::DynamoDB::Table":      "dynamodb:REGION:ACCOUNT:table/%s",
	"AWS::Events::EventBus":     "events:REGION:ACCOUNT:event-bus/%s",
	"AWS::Events::Rule":         "events:REGION:ACCOUNT:rule/%s",
	"AWS::IAM::Role":            "iam::ACCOUNT:role/%s",
	"AWS::Logs::LogGroup":       "logs:REGION:ACCOUNT:log-group:%s:*",
	"AWS::SQS::Queue":           "sqs:REGION:ACCOUNT:%s",
	"AWS::Serverless::Function": "lambda:REGION:ACCOUNT:function:%s",
	"AWS::Lambda::Function":     "lambda:REGION:ACCOUNT:function:%s",
}

// attributeOf returns an attribute of a resource: its ARN. Other attributes have no use in roles.
func (r *resolver) attributeOf(resource, attribute string) string {
	form, id := arnForms[r.types[resource]], r.stack.Resources[resource].ID
	if attribute != "Arn" || form == "" || id == "" {
		return ""
	}
	if r.types[resource] == "AWS::SQS::Queue" { // its id is its URL
		id = id[strings.LastIndexByte(id, '/')+1:]
	}
	form = strings.NewReplacer("REGION", r.pseudo["AWS::Region"], "ACCOUNT", r.pseudo["AWS::AccountId"]).Replace(form)
	return "arn:" + r.pseudo["AWS::Partition"] + ":" + fmt.Sprintf(form, strings.ReplaceAll(id, "|", "/"))
}

// holds reports whether a condition of the template holds.
func (r *resolver) holds(condition string) bool { return r.evaluate(r.conditions[condition]) }

// evaluate evaluates Not, And, Or and Equals.
func (r *resolver) evaluate(n *yaml.Node) bool {
	if n == nil {
		return false
	}
	name, argument := intrinsicOf(n)
	switch {
	case argument == nil:
		return false
	case name == "Condition":
		return r.holds(argument.Value)
	case name == "Not":
		return !r.evaluate(argument.Content[0])
	case name == "Equals":
		return fmt.Sprint(r.resolveNode(argument.Content[0])) == fmt.Sprint(r.resolveNode(argument.Content[1]))
	}
	for _, part := range argument.Content {
		if r.evaluate(part) != (name == "And") {
			return name == "Or"
		}
	}
	return name == "And"
}
