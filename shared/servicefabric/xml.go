package servicefabric

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
)

// readXML reads a ClusterManifest.xml. Elements that say nothing of nodes, node types or settings
// are passed over.
func readXML(b *builder, data []byte) error {
	d := xml.NewDecoder(bytes.NewReader(data))
	x := &manifest{builder: b}
	for {
		line, _ := d.InputPos()
		token, err := d.Token()
		var syntax *xml.SyntaxError
		switch {
		case errors.Is(err, io.EOF):
			if !x.seen {
				return wrong(1, "there is no ClusterManifest")
			}
			return nil
		case errors.As(err, &syntax):
			return wrong(syntax.Line, "%s", syntax.Msg)
		case err != nil:
			return wrong(line, "%s", err)
		}
		if err := x.token(token, start(data, d.InputOffset(), line, token)); err != nil {
			return err
		}
	}
}

// start is the line that an element begins on: the decoder stands behind it, and blank lines may
// come before.
func start(data []byte, end int64, line int, token xml.Token) int {
	if _, ok := token.(xml.StartElement); !ok {
		return line
	}
	from := bytes.LastIndexByte(data[:end], '<')
	return 1 + bytes.Count(data[:max(from, 0)], []byte("\n"))
}

// manifest is a manifest on its way: the elements that are open, and what the nearest of a kind is
// called.
type manifest struct {
	*builder
	path              []string
	seen              bool
	nodeType, section string
}

func (x *manifest) token(token xml.Token, line int) error {
	switch t := token.(type) {
	case xml.StartElement:
		if len(x.path) == maxDepth {
			return wrong(line, "elements are nested more than %d deep", maxDepth)
		}
		x.path = append(x.path, t.Name.Local)
		if len(x.path) == 1 {
			x.seen = true
			if t.Name.Local != "ClusterManifest" {
				return wrong(line, "the root is %s, expected ClusterManifest", t.Name.Local)
			}
		}
		return x.element(t, line)
	case xml.EndElement:
		x.path = x.path[:len(x.path)-1]
		if t.Name.Local == "NodeType" {
			x.nodeType = ""
		}
	}
	return nil
}

// under reports whether the element that was just opened stands directly in one of the name.
func (x *manifest) under(name string) bool { return len(x.path) > 1 && x.path[len(x.path)-2] == name }

func (x *manifest) element(t xml.StartElement, line int) error {
	get := func(name string) string {
		for _, a := range t.Attr {
			if a.Name.Local == name {
				return a.Value
			}
		}
		return ""
	}
	switch name := t.Name.Local; {
	case name == "ClusterManifest":
		x.out.Name = get("Name")
	case name == "Node" && x.under("NodeList"):
		return x.node(line, Node{
			Name: get("NodeName"), Address: get("IPAddressOrFQDN"), Type: get("NodeTypeRef"),
			FaultDomain: get("FaultDomain"), UpgradeDomain: get("UpgradeDomain"),
		})
	case name == "NodeType" && x.under("NodeTypes"):
		x.nodeType = get("Name")
		return x.builder.nodeType(line, x.nodeType)
	case name == "Property" && x.under("PlacementProperties"):
		return x.property(line, x.nodeType, get("Name"), get("Value"))
	case name == "Capacity" && x.under("Capacities"):
		return x.capacity(line, x.nodeType, get("Name"), get("Value"))
	case name == "Section" && x.under("FabricSettings"):
		x.section = get("Name")
	case name == "Parameter" && x.under("Section"):
		return x.parameter(line, x.section, get("Name"), get("Value"))
	}
	return nil
}
