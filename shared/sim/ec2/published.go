package ec2

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"berth/shared/cluster"
	"berth/shared/sim/protocol"
)

// A family is a kind of image that AWS publishes for container instances, with two releases: the
// older and the newest.
type family struct {
	path     string // of its parameters
	releases [2]string
}

// families have the paths of AWS. Their releases are made up.
var families = []family{
	optimizedFamily("amazon-linux-2023", "al2023-ami-ecs-hvm-2023.0.%s-kernel-6.1-x86_64"),
	optimizedFamily("amazon-linux-2023/arm64", "al2023-ami-ecs-hvm-2023.0.%s-kernel-6.1-arm64"),
	optimizedFamily("amazon-linux-2023/gpu", "al2023-ami-ecs-gpu-hvm-2023.0.%s-kernel-6.1-x86_64-ebs"),
	optimizedFamily("amazon-linux-2", "amzn2-ami-ecs-hvm-2.0.%s-x86_64-ebs"),
	optimizedFamily("amazon-linux-2/arm64", "amzn2-ami-ecs-hvm-2.0.%s-arm64-ebs"),
	optimizedFamily("amazon-linux-2/gpu", "amzn2-ami-ecs-gpu-hvm-2.0.%s-x86_64-ebs"),
	bottlerocketFamily("aws-ecs-2/x86_64"), bottlerocketFamily("aws-ecs-2/arm64"),
	bottlerocketFamily("aws-ecs-2-nvidia/x86_64"), bottlerocketFamily("aws-ecs-2-nvidia/arm64"),
}

func optimizedFamily(folder, name string) family {
	return family{"/aws/service/ecs/optimized-ami/" + folder,
		[2]string{fmt.Sprintf(name, "20260901"), fmt.Sprintf(name, "20261015")}}
}

func bottlerocketFamily(folder string) family {
	return family{"/aws/service/bottlerocket/" + folder, [2]string{"1.50.0-0a1b2c3d", "1.51.0-4e5f6a7b"}}
}

// publishedImage returns the id of a release of the nth family.
func publishedImage(family, release int) string {
	return fmt.Sprintf("ami-0be47000001%02d000%d", family, release+1)
}

// publishedParameters are the public parameters of images by name, with their values.
var publishedParameters = func() map[string]string {
	values := map[string]string{}
	for n, f := range families {
		for k, release := range f.releases {
			image := publishedImage(n, k)
			names := []string{release}
			if k == len(f.releases)-1 {
				names = append(names, "recommended", "latest")
			}
			// never fails for texts
			described, _ := json.Marshal(map[string]string{"image_id": image, "image_name": release})
			for _, name := range names {
				at := f.path + "/" + name
				if strings.Contains(f.path, "/bottlerocket/") {
					values[at+"/image_id"], values[at+"/image_version"] = image, release
				} else if name != "latest" {
					values[at], values[at+"/image_id"] = string(described), image
				}
			}
		}
	}
	return values
}()

// ImageArchitecture returns the processor architecture of a published image; empty for another one.
func ImageArchitecture(image string) string {
	for n, f := range families {
		for k := range f.releases {
			switch {
			case publishedImage(n, k) != image:
			case strings.Contains(f.path, "/arm64"):
				return archARM
			default:
				return archX86
			}
		}
	}
	return ""
}

// ReadParameters returns the values of those of the parameters named that exist.
func (e *Templates) ReadParameters(_ context.Context, names []string) (map[string]string, error) {
	values := map[string]string{}
	err := e.kernel.CallView("GetParameters", strings.Join(names, " "), func(time.Time) error {
		for _, name := range names {
			if value, known := publishedParameters[name]; known {
				values[name] = value
			}
		}
		return nil
	})
	return values, err
}

// ServeParameters answers a call of Systems Manager, which has only the parameters by which AWS
// publishes images.
func (e *Templates) ServeParameters(w http.ResponseWriter, operation string, body []byte) {
	protocol.JSON11.ServeTree(w, body, func(tree protocol.Tree) (protocol.Tree, error) {
		var in struct {
			Name  string
			Names []string
		}
		if err := protocol.DecodeTree(tree, &in); err != nil {
			return nil, err
		}
		switch operation {
		case "GetParameter":
			in.Names = []string{in.Name}
		case "GetParameters":
		default:
			return nil, protocol.UnknownOperation(operation)
		}
		values, err := e.ReadParameters(context.Background(), in.Names)
		if err != nil {
			return nil, err
		}
		found, unknown := []any{}, []any{}
		for _, name := range in.Names {
			if value, known := values[name]; known {
				found = append(found, protocol.Tree{"Name": name, "Type": "String", "Value": value, "Version": 1.0})
			} else {
				unknown = append(unknown, name)
			}
		}
		switch {
		case operation == "GetParameters":
			return protocol.Tree{"Parameters": found, "InvalidParameters": unknown}, nil
		case len(found) == 0:
			return nil, cluster.Errorf("ParameterNotFound", "")
		}
		return protocol.Tree{"Parameter": found[0]}, nil
	})
}
