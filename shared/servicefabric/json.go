package servicefabric

import (
	"bytes"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// readJSON reads a ClusterConfig.json, with comments and trailing commas. Members that say nothing
// of nodes, node types or settings are passed over. nodeTypes and fabricSettings stand under
// properties; at the root they are accepted too.
func readJSON(b *builder, data []byte) error {
	if deep(data) {
		return wrong(1, "values are nested more than %d deep", maxDepth)
	}
	v, err := hujson.Parse(data)
	if err != nil {
		return syntaxError(err)
	}
	j := &config{builder: b, data: data}
	root, err := j.object(&v, "the description")
	if err != nil {
		return err
	}
	properties := members{}
	if p := root["properties"]; p != nil {
		if properties, err = j.object(p, "properties"); err != nil {
			return err
		}
	}
	if n := root["name"]; n != nil {
		if b.out.Name, err = j.text(n, "name"); err != nil {
			return err
		}
	}
	for _, m := range []members{properties, root} {
		if err := errors.Join(j.each(m["nodetypes"], "nodeTypes", j.readType),
			j.each(m["fabricsettings"], "fabricSettings", j.readSection)); err != nil {
			return err
		}
	}
	return j.each(root["nodes"], "nodes", j.readNode)
}

// deep bounds how far the parser, which recurses, has to go down.
func deep(data []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

var parserError = regexp.MustCompile(`line (\d+), column \d+: (.*)$`)

func syntaxError(err error) error {
	if m := parserError.FindStringSubmatch(err.Error()); m != nil {
		line, _ := strconv.Atoi(m[1])
		return wrong(line, "%s", m[2])
	}
	return wrong(1, "%s", strings.TrimPrefix(err.Error(), "hujson: "))
}

// config is a description on its way.
type config struct {
	*builder
	data []byte
}

// members are an object's, by name in lower case.
type members map[string]*hujson.Value

func (j *config) line(v *hujson.Value) int {
	return 1 + bytes.Count(j.data[:v.StartOffset], []byte("\n"))
}

func (j *config) object(v *hujson.Value, what string) (members, error) {
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil, wrong(j.line(v), "%s is no object", what)
	}
	out := members{}
	for i := range o.Members {
		m := &o.Members[i]
		name := strings.ToLower(m.Name.Value.(hujson.Literal).String())
		if out[name] != nil {
			return nil, wrong(j.line(&m.Name), "%s has %q twice", what, name)
		}
		out[name] = &m.Value
	}
	return out, nil
}

func (j *config) each(v *hujson.Value, what string, do func(line int, m members) error) error {
	if v == nil {
		return nil
	}
	a, ok := v.Value.(*hujson.Array)
	if !ok {
		return wrong(j.line(v), "%s is no array", what)
	}
	for i := range a.Elements {
		m, err := j.object(&a.Elements[i], "an element of "+what)
		if err != nil {
			return err
		}
		if err := do(j.line(&a.Elements[i]), m); err != nil {
			return err
		}
	}
	return nil
}

// text is a string, or a number or truth value as it is written; empty for nothing.
func (j *config) text(v *hujson.Value, what string) (string, error) {
	if v == nil {
		return "", nil
	}
	l, ok := v.Value.(hujson.Literal)
	if !ok {
		return "", wrong(j.line(v), "%s is no plain value", what)
	}
	switch l.Kind() {
	case 'n':
		return "", nil
	case '"':
		return l.String(), nil
	}
	return string(l), nil
}

// texts reads members into strings, in order.
func (j *config) texts(m members, names ...string) ([]string, error) {
	out := make([]string, len(names))
	for i, name := range names {
		var err error
		if out[i], err = j.text(m[strings.ToLower(name)], name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (j *config) readNode(line int, m members) error {
	t, err := j.texts(m, "nodeName", "iPAddress", "nodeTypeRef", "faultDomain", "upgradeDomain")
	if err != nil {
		return err
	}
	return j.node(line, Node{Name: t[0], Address: t[1], Type: t[2], FaultDomain: t[3], UpgradeDomain: t[4]})
}

func (j *config) readType(line int, m members) error {
	name, err := j.text(m["name"], "name")
	if err != nil {
		return err
	}
	if err := j.nodeType(line, name); err != nil {
		return err
	}
	if err := j.values(m["placementproperties"], "placementProperties", name, j.property); err != nil {
		return err
	}
	return j.values(m["capacities"], "capacities", name, j.capacity)
}

// values passes on each member of an object, its name as it is written.
func (j *config) values(v *hujson.Value, what, of string, do func(line int, of, name, value string) error) error {
	if v == nil {
		return nil
	}
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return wrong(j.line(v), "%s is no object", what)
	}
	for i := range o.Members {
		m := &o.Members[i]
		value, err := j.text(&m.Value, what)
		if err != nil {
			return err
		}
		if err := do(j.line(&m.Name), of, m.Name.Value.(hujson.Literal).String(), value); err != nil {
			return err
		}
	}
	return nil
}

func (j *config) readSection(_ int, m members) error {
	section, err := j.text(m["name"], "name")
	if err != nil {
		return err
	}
	return j.each(m["parameters"], "parameters", func(line int, p members) error {
		t, err := j.texts(p, "name", "value")
		if err != nil {
			return err
		}
		return j.parameter(line, section, t[0], t[1])
	})
}
