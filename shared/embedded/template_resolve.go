package embedded

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// resolveNode returns the value of a node: nil, bool, float64, string, attribute, []any or
// map[string]any. It carries out Ref, Sub and GetAtt, written as a tag (!Ref X) or as a mapping
// ({Ref: X}). Any other function is an error that names the path.
func (t *template) resolveNode(n *yaml.Node, path string) (any, error) {
	n = followAlias(n)
	if name := shortIntrinsic(n); name != "" {
		plain := *n
		plain.Tag = ""
		if n.Kind == yaml.ScalarNode {
			return t.callIntrinsic(name, n.Value, path)
		}
		argument, err := t.resolveNode(&plain, path)
		if err != nil {
			return nil, err
		}
		return t.callIntrinsic(name, argument, path)
	}
	if name := soleIntrinsic(n); name != "" {
		argument, err := t.resolveNode(n.Content[1], path+"."+name)
		if err != nil {
			return nil, err
		}
		return t.callIntrinsic(name, argument, path)
	}
	switch n.Kind {
	case yaml.MappingNode:
		return t.resolveMapping(n, path)
	case yaml.SequenceNode:
		return t.resolveList(n, path)
	}
	return scalarNode(n, path)
}

func (t *template) resolveMapping(n *yaml.Node, path string) (any, error) {
	m := map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		v, err := t.resolveNode(n.Content[i+1], path+"."+key)
		if err != nil {
			return nil, err
		}
		m[key] = v
	}
	return m, nil
}

func (t *template) resolveList(n *yaml.Node, path string) (any, error) {
	list := make([]any, 0, len(n.Content))
	for i, item := range n.Content {
		v, err := t.resolveNode(item, path+"["+strconv.Itoa(i)+"]")
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// scalarNode returns the value of a plain scalar, by the tag that YAML's rules give it.
func scalarNode(n *yaml.Node, path string) (any, error) {
	switch n.Tag {
	case "!!null":
		return nil, nil
	case "!!bool":
		return n.Value == "true" || n.Value == "True" || n.Value == "TRUE", nil
	case "!!int", "!!float":
		var f float64
		if err := n.Decode(&f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return f, nil
	}
	return n.Value, nil
}

// callIntrinsic carries out an intrinsic function of CloudFormation.
func (t *template) callIntrinsic(name string, argument any, path string) (any, error) {
	switch name {
	case "Ref":
		if id, ok := argument.(string); ok {
			return t.resolveRef(id, path)
		}
	case "Fn::GetAtt":
		if a, ok := parseGetAtt(argument); ok {
			return t.resolveAttribute(a, path)
		}
	case "Fn::Sub":
		if text, ok := argument.(string); ok {
			return t.substituteText(text, path)
		}
	}
	return nil, fmt.Errorf("%s: %s is not supported here", path, name)
}

// parseGetAtt reads the argument of GetAtt, "Queue.Arn" or [Queue, Arn].
func parseGetAtt(argument any) (attribute, bool) {
	switch v := argument.(type) {
	case string:
		id, name, ok := strings.Cut(v, ".")
		return attribute{id, name}, ok && name != ""
	case []any:
		if len(v) == 2 {
			id, _ := v[0].(string)
			name, _ := v[1].(string)
			return attribute{id, name}, id != "" && name != ""
		}
	}
	return attribute{}, false
}

// resolveAttribute refuses a resource that the template does not have. Which attributes it has is
// not checked here but where the value is used.
func (t *template) resolveAttribute(a attribute, path string) (any, error) {
	if t.resources[a.Resource] == "" {
		return nil, fmt.Errorf("%s: the template has no resource %q", path, a.Resource)
	}
	return a, nil
}

// pseudoParameters are CloudFormation's pseudo parameters, with their values unless others are
// given.
var pseudoParameters = map[string]string{
	"AWS::Region": localRegion, "AWS::AccountId": localAccount, "AWS::Partition": "aws", "AWS::StackName": "berth",
}

// resolveRef returns the value of a parameter, or a reference to a resource.
func (t *template) resolveRef(id, path string) (any, error) {
	if v, ok := t.parameters[id]; ok {
		return v, nil
	}
	if v, ok := t.pseudo[id]; ok {
		return v, nil
	}
	if t.resources[id] != "" {
		return attribute{Resource: id}, nil
	}
	return nil, fmt.Errorf("%s: the template has no parameter or resource %q", path, id)
}

var placeholder = regexp.MustCompile(`\$\{([^!}][^}]*)\}`)

// substituteText replaces the placeholders of Sub. A text that is one placeholder and nothing else
// has the value that it names, which may be a resource; within a longer text only texts and numbers
// can be named. "${!x}" stands for "${x}".
func (t *template) substituteText(text, path string) (any, error) {
	if m := placeholder.FindStringSubmatch(text); m != nil && m[0] == text {
		if a, ok := parseGetAtt(m[1]); ok {
			return t.resolveAttribute(a, path)
		}
		return t.resolveRef(m[1], path)
	}
	var failed error
	out := placeholder.ReplaceAllStringFunc(text, func(m string) string {
		v, err := t.resolveRef(m[2:len(m)-1], path)
		switch v := v.(type) {
		case string:
			return v
		case float64:
			return strconv.FormatFloat(v, 'f', -1, 64)
		}
		if err == nil {
			err = fmt.Errorf("%s: %s within a longer text is not supported here", path, m)
		}
		failed = err
		return m
	})
	if failed != nil {
		return nil, failed
	}
	return strings.ReplaceAll(out, "${!", "${"), nil
}

// followAlias returns what a YAML alias (*name) stands for.
func followAlias(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// shortIntrinsic returns the name of a function written as a tag: "Ref" for !Ref, "Fn::Sub" for
// !Sub.
func shortIntrinsic(n *yaml.Node) string {
	name, ok := strings.CutPrefix(n.Tag, "!")
	switch {
	case !ok || strings.HasPrefix(name, "!"):
		return ""
	case name == "Ref" || name == "Condition":
		return name
	}
	return "Fn::" + name
}

// soleIntrinsic returns the name of a function written as the only key of a mapping, "" if there is
// none.
func soleIntrinsic(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 {
		return ""
	}
	if key := n.Content[0].Value; key == "Ref" || strings.HasPrefix(key, "Fn::") {
		return key
	}
	return ""
}
