package servicefabric

import (
	"bytes"
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tailscale/hujson"
)

// readJSON reads a ClusterConfig.json, with comments and trailing commas. It notes the members that
// are about something else than nodes, node types and settings. nodeTypes and fabricSettings belong
// under properties, but are accepted at the root, too.
func readJSON(b *builder, data []byte) error {
	if isTooDeep(data) {
		return errorAt(1, "values are nested more than %d deep", maxDepth)
	}
	v, err := hujson.Parse(data)
	if err != nil {
		return syntaxError(err)
	}
	j := &jsonReader{builder: b, data: data, written: map[string]string{}}
	root, err := j.readObject(&v, "the description")
	if err != nil {
		return err
	}
	properties := members{}
	if p := root["properties"]; p != nil {
		if properties, err = j.readObject(p, "properties"); err != nil {
			return err
		}
	}
	if n := root["name"]; n != nil {
		if b.out.Name, err = j.readText(n, "name"); err != nil {
			return err
		}
	}
	j.ignoreOthers(properties, "properties", "nodeTypes", "fabricSettings")
	j.ignoreOthers(root, "", "name", "nodes", "properties", "nodeTypes", "fabricSettings")
	for _, m := range []members{properties, root} {
		if err := errors.Join(j.forEach(m["nodetypes"], "nodeTypes", j.readType),
			j.forEach(m["fabricsettings"], "fabricSettings", j.readSection)); err != nil {
			return err
		}
	}
	return j.forEach(root["nodes"], "nodes", j.readNode)
}

// isTooDeep checks the nesting before parsing, because the parser recurses and would exhaust the
// stack.
func isTooDeep(data []byte) bool {
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

// syntaxError takes the line out of the parser's message: "line 3, column 5: unexpected ...".
func syntaxError(err error) error {
	if m := parserError.FindStringSubmatch(err.Error()); m != nil {
		line, _ := strconv.Atoi(m[1])
		return errorAt(line, "%s", m[2])
	}
	return errorAt(1, "%s", strings.TrimPrefix(err.Error(), "hujson: "))
}

// jsonReader reads a ClusterConfig.json into a builder.
type jsonReader struct {
	*builder
	data    []byte
	written map[string]string // names of members as they were written first, by lower case
}

// members has the values of an object by name in lower case.
type members map[string]*hujson.Value

// lineOf returns the line on which a value begins, from 1.
func (j *jsonReader) lineOf(v *hujson.Value) int {
	return 1 + bytes.Count(j.data[:v.StartOffset], []byte("\n"))
}

// readObject returns the members of an object. Their names may be in any case, as in Service
// Fabric, but each only once.
func (j *jsonReader) readObject(v *hujson.Value, what string) (members, error) {
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil, errorAt(j.lineOf(v), "%s is no object", what)
	}
	out := members{}
	for i := range o.Members {
		m := &o.Members[i]
		written := m.Name.Value.(hujson.Literal).String()
		name := strings.ToLower(written)
		j.written[name] = cmp.Or(j.written[name], written)
		if out[name] != nil {
			return nil, errorAt(j.lineOf(&m.Name), "%s has %q twice", what, name)
		}
		out[name] = &m.Value
	}
	return out, nil
}

// ignoreOthers notes the members of an object that are not known, below the path.
func (j *jsonReader) ignoreOthers(m members, path string, known ...string) {
	for name := range m {
		isName := func(k string) bool { return strings.EqualFold(k, name) }
		if !slices.ContainsFunc(known, isName) {
			j.ignore(strings.TrimPrefix(path+"/"+j.written[name], "/"))
		}
	}
}

// forEach calls do for each element of an array of objects. An array that is not there has no
// elements.
func (j *jsonReader) forEach(v *hujson.Value, what string, do func(line int, m members) error) error {
	if v == nil {
		return nil
	}
	a, ok := v.Value.(*hujson.Array)
	if !ok {
		return errorAt(j.lineOf(v), "%s is no array", what)
	}
	for i := range a.Elements {
		m, err := j.readObject(&a.Elements[i], "an element of "+what)
		if err != nil {
			return err
		}
		if err := do(j.lineOf(&a.Elements[i]), m); err != nil {
			return err
		}
	}
	return nil
}

// readText returns a string, or a number or Boolean as it is written: fabricSettings has all values
// as strings, but tools write 0.15 as well. It is empty for null and for a member that is missing.
func (j *jsonReader) readText(v *hujson.Value, what string) (string, error) {
	if v == nil {
		return "", nil
	}
	l, ok := v.Value.(hujson.Literal)
	if !ok {
		return "", errorAt(j.lineOf(v), "%s is no plain value", what)
	}
	switch l.Kind() {
	case 'n':
		return "", nil
	case '"':
		return l.String(), nil
	}
	return string(l), nil
}

// readTexts returns the named members as strings, in that order.
func (j *jsonReader) readTexts(m members, names ...string) ([]string, error) {
	out := make([]string, len(names))
	for i, name := range names {
		var err error
		if out[i], err = j.readText(m[strings.ToLower(name)], name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readNode adds a node.
func (j *jsonReader) readNode(line int, m members) error {
	names := []string{"nodeName", "iPAddress", "nodeTypeRef", "faultDomain", "upgradeDomain"}
	j.ignoreOthers(m, "nodes", names...)
	t, err := j.readTexts(m, names...)
	if err != nil {
		return err
	}
	return j.addNode(line, Node{Name: t[0], Address: t[1], Type: t[2], FaultDomain: t[3], UpgradeDomain: t[4]})
}

// readType adds a node type with its properties and capacities.
func (j *jsonReader) readType(line int, m members) error {
	name, err := j.readText(m["name"], "name")
	if err != nil {
		return err
	}
	if err := j.addNodeType(line, name); err != nil {
		return err
	}
	j.ignoreOthers(m, "nodeTypes", "name", "placementProperties", "capacities")
	if err := j.forEachMember(m["placementproperties"], "placementProperties", name, j.addProperty); err != nil {
		return err
	}
	return j.forEachMember(m["capacities"], "capacities", name, j.addCapacity)
}

// forEachMember calls do for each member of an object, with its name as it is written.
func (j *jsonReader) forEachMember(
	v *hujson.Value, what, of string, do func(line int, of, name, value string) error,
) error {
	if v == nil {
		return nil
	}
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return errorAt(j.lineOf(v), "%s is no object", what)
	}
	for i := range o.Members {
		m := &o.Members[i]
		value, err := j.readText(&m.Value, what)
		if err != nil {
			return err
		}
		if err := do(j.lineOf(&m.Name), of, m.Name.Value.(hujson.Literal).String(), value); err != nil {
			return err
		}
	}
	return nil
}

// readSection adds the parameters of a section of fabricSettings.
func (j *jsonReader) readSection(_ int, m members) error {
	section, err := j.readText(m["name"], "name")
	if err != nil {
		return err
	}
	return j.forEach(m["parameters"], "parameters", func(line int, p members) error {
		t, err := j.readTexts(p, "name", "value")
		if err != nil {
			return err
		}
		return j.addParameter(line, section, t[0], t[1])
	})
}
