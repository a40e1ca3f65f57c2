package servicefabric

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
)

// readXML reads a ClusterManifest.xml. It notes the elements that are about something else than
// nodes, node types and settings.
func readXML(b *builder, data []byte) error {
	d := xml.NewDecoder(bytes.NewReader(data))
	x := &xmlReader{builder: b}
	for {
		line, _ := d.InputPos()
		token, err := d.Token()
		var syntax *xml.SyntaxError
		switch {
		case errors.Is(err, io.EOF):
			if !x.hasRoot {
				return errorAt(1, "there is no ClusterManifest")
			}
			return nil
		case errors.As(err, &syntax):
			return errorAt(syntax.Line, "%s", syntax.Msg)
		case err != nil:
			return errorAt(line, "%s", err)
		}
		if err := x.readToken(token, startLine(data, d.InputOffset(), line, token)); err != nil {
			return err
		}
	}
}

// startLine returns the line on which an element begins: the decoder is behind it, and blank lines
// may come before.
func startLine(data []byte, end int64, line int, token xml.Token) int {
	if _, ok := token.(xml.StartElement); !ok {
		return line
	}
	from := bytes.LastIndexByte(data[:end], '<')
	return 1 + bytes.Count(data[:max(from, 0)], []byte("\n"))
}

// xmlReader reads a ClusterManifest.xml into a builder. It has the elements that are open, and the
// names of the innermost NodeType and Section.
type xmlReader struct {
	*builder
	path              []string
	hasRoot           bool
	skipped           int // how many of the open elements are in one that Berth does not have
	nodeType, section string
}

// readToken keeps track of where the reader is, and handles elements as they begin. Their text has
// no meaning.
func (x *xmlReader) readToken(token xml.Token, line int) error {
	switch t := token.(type) {
	case xml.StartElement:
		if len(x.path) == maxDepth {
			return errorAt(line, "elements are nested more than %d deep", maxDepth)
		}
		x.path = append(x.path, t.Name.Local)
		if len(x.path) == 1 {
			x.hasRoot = true
			if t.Name.Local != "ClusterManifest" {
				return errorAt(line, "the root is %s, expected ClusterManifest", t.Name.Local)
			}
		}
		if x.skipped > 0 || !x.isKnown(t.Name.Local) {
			if x.skipped++; x.skipped == 1 {
				x.ignore(x.path[1:]...)
			}
			return nil
		}
		return x.openElement(t, line)
	case xml.EndElement:
		x.skipped = max(0, x.skipped-1)
		x.path = x.path[:len(x.path)-1]
		if t.Name.Local == "NodeType" {
			x.nodeType = ""
		}
	}
	return nil
}

// isIn reports whether the element that was just opened is directly in one of the name.
func (x *xmlReader) isIn(name string) bool { return len(x.path) > 1 && x.path[len(x.path)-2] == name }

// parents are the elements that are read or lead to some that are, with the elements that they may
// be in. Infrastructure has the kind of platform, such as WindowsServer, which has the nodes.
var parents = map[string][]string{
	"NodeTypes": {"ClusterManifest"}, "NodeType": {"NodeTypes"}, "PlacementProperties": {"NodeType"},
	"Property": {"PlacementProperties"}, "Capacities": {"NodeType"}, "Capacity": {"Capacities"},
	"Infrastructure": {"ClusterManifest"}, "Node": {"NodeList"},
	"FabricSettings": {"ClusterManifest"}, "Section": {"FabricSettings"}, "Parameter": {"Section"},
}

// isKnown reports whether the element that was just opened is one that Berth reads, or leads to
// one.
func (x *xmlReader) isKnown(name string) bool {
	return len(x.path) == 1 || name == "NodeList" || x.isIn("Infrastructure") ||
		slices.ContainsFunc(parents[name], x.isIn)
}

// openElement adds what an element describes. The same name means different things in different
// places, such as Parameter, so its parent counts.
func (x *xmlReader) openElement(t xml.StartElement, line int) error {
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
	case name == "Node" && x.isIn("NodeList"):
		return x.addNode(line, Node{
			Name: get("NodeName"), Address: get("IPAddressOrFQDN"), Type: get("NodeTypeRef"),
			FaultDomain: get("FaultDomain"), UpgradeDomain: get("UpgradeDomain"),
		})
	case name == "NodeType" && x.isIn("NodeTypes"):
		x.nodeType = get("Name")
		return x.addNodeType(line, x.nodeType)
	case name == "Property" && x.isIn("PlacementProperties"):
		return x.addProperty(line, x.nodeType, get("Name"), get("Value"))
	case name == "Capacity" && x.isIn("Capacities"):
		return x.addCapacity(line, x.nodeType, get("Name"), get("Value"))
	case name == "Section" && x.isIn("FabricSettings"):
		x.section = get("Name")
	case name == "Parameter" && x.isIn("Section"):
		return x.addParameter(line, x.section, get("Name"), get("Value"))
	}
	return nil
}
