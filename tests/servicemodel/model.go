package servicemodel

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A Model is a service model of botocore, as far as it is used here.
type Model struct {
	Operations map[string]Operation `json:"operations"`
	Shapes     map[string]Shape     `json:"shapes"`
}

// An Operation is one operation of a service. Input and Output are empty if it has none.
type Operation struct {
	HTTP struct {
		Method     string `json:"method"`
		RequestURI string `json:"requestUri"`
	} `json:"http"`
	Input  Ref   `json:"input"`
	Output Ref   `json:"output"`
	Errors []Ref `json:"errors"`
}

// A Ref names a shape, and where the member is in a request of a REST API.
type Ref struct {
	Shape        string `json:"shape"`
	Location     string `json:"location"` // uri, querystring or header; empty: the body
	LocationName string `json:"locationName"`
}

// A Shape is a type of a service.
type Shape struct {
	Type      string         `json:"type"`
	Required  []string       `json:"required"`
	Members   map[string]Ref `json:"members"` // of a structure
	Member    Ref            `json:"member"`  // of a list
	Value     Ref            `json:"value"`   // of a map
	Enum      []string       `json:"enum"`
	Exception bool           `json:"exception"`
	Document  bool           `json:"document"` // anything
	Error     struct {
		HTTPStatusCode int `json:"httpStatusCode"`
	} `json:"error"`
}

// Models are the models of both services.
type Models struct{ ECS, EKS *Model }

// ErrNotFetched says that botocore's models are not on this machine.
var ErrNotFetched = errors.New("botocore is not in .cache/venv/moto: `make test` fetches it")

// The models that Berth's API follows, below botocore/data.
const (
	ecsModel = "ecs/2014-11-13/service-2.json.gz"
	eksModel = "eks/2017-11-01/service-2.json.gz"
)

// Load reads the models of the botocore that tools/moto.txt pins. root is the repository's folder.
// Without it, Load returns [ErrNotFetched].
func Load(root string) (*Models, error) {
	found, err := filepath.Glob(filepath.Join(root, ".cache", "venv", "moto", "lib", "python3*", "site-packages",
		"botocore", "data"))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, ErrNotFetched
	}
	out := &Models{}
	if out.ECS, err = read(filepath.Join(found[0], ecsModel)); err != nil {
		return nil, err
	}
	out.EKS, err = read(filepath.Join(found[0], eksModel))
	return out, err
}

var loaded sync.Map // Models by root

// ForTests returns the models for tests that check what they send on the way, nil where they are
// not fetched: [ErrNotFetched] is then the reason of a skipped test of this package.
func ForTests(t testing.TB, root string) *Models {
	t.Helper()
	if m, ok := loaded.Load(root); ok {
		return m.(*Models)
	}
	m, err := Load(root)
	if err != nil && !errors.Is(err, ErrNotFetched) {
		t.Fatal(err)
	}
	loaded.Store(root, m)
	return m
}

func read(path string) (*Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := &Model{}
	plain, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(plain).Decode(out)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return out, nil
}

// FindMember returns the shape of a member of an operation's input, by its path such as
// overrides.cpu; empty if there is none. Lists count as their items.
func (m *Model) FindMember(op, path string) string {
	name := m.Operations[op].Input.Shape
	for _, part := range strings.Split(path, ".") {
		member, ok := m.Shapes[name].Members[part]
		if !ok {
			return ""
		}
		name = member.Shape
		for m.Shapes[name].Type == "list" {
			name = m.Shapes[name].Member.Shape
		}
	}
	return name
}
