package cloud

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	"go.yaml.in/yaml/v3"
)

// A BuildMode says with which flags the functions are built.
type BuildMode int

const (
	// Plain builds without flags, and so uses the packages that other commands have compiled.
	Plain BuildMode = iota
	// AsDeployed builds with the flags of `make deploy`. The first such build compiles all packages
	// again.
	AsDeployed
)

func (m BuildMode) buildFlags() (flags, env []string) {
	if m == Plain {
		return nil, nil
	}
	return []string{"-trimpath", "-tags", "lambda.norpc,nethttpomithttp2", "-ldflags", "-s -w"},
		[]string{"CGO_ENABLED=0"}
}

// BuildFunctions builds the functions for Linux on this machine's architecture into dir/FUNCTION.
func BuildFunctions(ctx context.Context, root, dir string, mode BuildMode) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	flags, env := mode.buildFlags()
	args := slices.Concat([]string{"build", "-o", dir + string(filepath.Separator)}, flags, []string{"./functions/..."})
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = root, slices.Concat(os.Environ(), []string{"GOOS=linux"}, env)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the functions: %w\n%s", err, out)
	}
	return nil
}

// architecture returns the template's name for the architecture that [BuildFunctions] builds for.
func architecture() string {
	if runtime.GOARCH == "arm64" {
		return "arm64"
	}
	return "x86_64"
}

// An artifact is a file that a template refers to.
type artifact struct {
	at  *yaml.Node // the reference
	dir string     // of a function's code, or
	tmp string     // a nested template
}

// artifacts returns what a template refers to: the code of functions, and nested templates.
func artifacts(template *yaml.Node) []artifact {
	var found []artifact
	resources := memberOf(template.Content[0], "Resources")
	for i := 1; i < len(resources.Content); i += 2 {
		kind, properties := memberOf(resources.Content[i], "Type"), memberOf(resources.Content[i], "Properties")
		switch {
		case kind == nil || properties == nil:
		case kind.Value == "AWS::Serverless::Function":
			if uri := memberOf(properties, "CodeUri"); uri != nil {
				found = append(found, artifact{at: uri, dir: filepath.Base(uri.Value)})
			}
		case kind.Value == "AWS::CloudFormation::Stack":
			if uri := memberOf(properties, "TemplateURL"); uri != nil {
				found = append(found, artifact{at: uri, tmp: uri.Value})
			}
		}
	}
	return found
}

func memberOf(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// bucket holds the artifacts.
const bucket = "artifacts"

func readTemplate(source string) (*yaml.Node, error) {
	text, err := os.ReadFile(filepath.Join(source, "template.yaml"))
	if err != nil {
		return nil, err
	}
	var template yaml.Node
	if err := yaml.Unmarshal(text, &template); err != nil {
		return nil, fmt.Errorf("reading template.yaml: %w", err)
	}
	return &template, nil
}

// packTemplate uploads the artifacts of a template, makes the template refer to them, and returns
// its text, as `sam package` does. Name is part of the objects' names, so that another version of
// the code is another object.
func (c caller) packTemplate(ctx context.Context, template *yaml.Node, v Version, name string) (string, error) {
	if err := c.putObject(ctx, "/"+bucket, nil); err != nil {
		return "", err
	}
	for _, a := range artifacts(template) {
		if a.tmp != "" {
			nested, err := os.ReadFile(filepath.Join(v.Source, a.tmp))
			if err != nil {
				return "", err
			}
			path := "/" + bucket + "/" + name + "-" + filepath.Base(a.tmp)
			if err := c.putObject(ctx, path, nested); err != nil {
				return "", err
			}
			a.at.Value = c.endpoint + path
			continue
		}
		zipped, err := zipBootstrap(filepath.Join(v.Code, a.dir))
		if err != nil {
			return "", err
		}
		path := bucket + "/" + name + "-" + a.dir + ".zip"
		if err := c.putObject(ctx, "/"+path, zipped); err != nil {
			return "", err
		}
		a.at.Value = "s3://" + path
	}
	packed, err := yaml.Marshal(template)
	return string(packed), err
}

// zipBootstrap returns a function's code in Lambda's form: a zip file with one file called
// bootstrap.
func zipBootstrap(binary string) ([]byte, error) {
	code, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	h := &zip.FileHeader{Name: "bootstrap", Method: zip.Store}
	h.SetMode(0o755)
	file, err := w.CreateHeader(h)
	if err != nil {
		return nil, err
	}
	if _, err := file.Write(code); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// FunctionFolders returns the folders of functions/ that template.yaml deploys, sorted.
func FunctionFolders(root string) ([]string, error) {
	template, err := readTemplate(root)
	if err != nil {
		return nil, err
	}
	return functionFolders(template), nil
}

func functionFolders(template *yaml.Node) (folders []string) {
	for _, a := range artifacts(template) {
		if a.dir != "" {
			folders = append(folders, a.dir)
		}
	}
	slices.Sort(folders)
	return folders
}
