package eksapi

import (
	"bufio"
	"os"
	"reflect"
	"strings"
	"testing"
)

// eksOwn has the members that Berth accepts beyond the EKS API.
var eksOwn = map[string]bool{"UpdateNodegroupVersionRequest.forceProtected": true}

// The shapes of the EKS API have the names and types of botocore's model.
func TestEKSModel(t *testing.T) {
	f, err := os.Open("testdata/eks_model.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	model := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, kind, _ := strings.Cut(lines.Text(), " ")
		model[name] = kind
	}
	for name, shape := range map[string]any{
		"Nodegroup": nodegroup{}, "Update": update{}, "NodegroupScalingConfig": scalingConfig{},
		"NodegroupUpdateConfig":       updateConfig{},
		"LaunchTemplateSpecification": launchTemplate{}, "NodegroupResources": resources{},
		"AutoScalingGroup": autoScalingGroup{},
		"NodegroupHealth":  health{}, "Issue": issue{}, "UpdateParam": param{}, "ErrorDetail": errorDetail{},
		"CreateNodegroupResponse": nodegroupOutput{}, "DescribeUpdateResponse": updateOutput{},
		"ListNodegroupsResponse": listNodegroupsOutput{}, "ListUpdatesResponse": listUpdatesOutput{},
		"CreateNodegroupRequest": createInput{}, "UpdateNodegroupConfigRequest": configInput{},
		"UpdateNodegroupVersionRequest": VersionInput{},
	} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(shape)) {
			member, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			full := name + "." + member
			if !field.Anonymous && !eksOwn[full] && !fits(model[full], field.Type) {
				t.Errorf("%s is a %q, here %v", full, model[full], field.Type)
			}
		}
	}
}

func fits(kind string, typ reflect.Type) bool {
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch kind {
	case "string":
		return typ.Kind() == reflect.String
	case "integer":
		return typ.Kind() == reflect.Int
	case "boolean":
		return typ.Kind() == reflect.Bool
	case "timestamp":
		return typ == reflect.TypeFor[epochSeconds]()
	case "list":
		return typ.Kind() == reflect.Slice
	case "map":
		return typ.Kind() == reflect.Map
	case "structure":
		return typ.Kind() == reflect.Struct || typ.String() == "json.RawMessage"
	}
	return false
}
