package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"go.yaml.in/yaml/v3"

	"berth/tests/ministack"
)

// GrantedActions returns the actions that a function's role in template.yaml may allow under any
// parameters, sorted.
func GrantedActions(root, folder string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, "template.yaml"))
	if err != nil {
		return nil, err
	}
	var template yaml.Node
	if err := yaml.Unmarshal(text, &template); err != nil {
		return nil, err
	}
	role := memberOf(memberOf(template.Content[0], "Resources"), logicalName(folder)+"Role")
	if role == nil {
		return nil, fmt.Errorf("template.yaml has no role of function %s", folder)
	}
	found := allActions(memberOf(memberOf(role, "Properties"), "Policies"))
	slices.Sort(found)
	return slices.Compact(found), nil
}

// allActions returns the values of every Action at or below a node.
func allActions(n *yaml.Node) (found []string) {
	if n.Kind == yaml.MappingNode {
		if a := memberOf(n, "Action"); a != nil {
			if a.Kind == yaml.ScalarNode {
				return []string{a.Value}
			}
			for _, one := range a.Content {
				found = append(found, one.Value)
			}
			return found
		}
	}
	for _, below := range n.Content {
		found = append(found, allActions(below)...)
	}
	return found
}

// A policy is a role's inline policy.
type policy struct {
	Version   string
	Statement []statement
}

type statement struct {
	Sid       string          `json:",omitempty"`
	Effect    string          `json:",omitempty"`
	Action    json.RawMessage `json:",omitempty"`
	Resource  json.RawMessage `json:",omitempty"`
	Condition json.RawMessage `json:",omitempty"`
}

// RevokeAction removes an action from the deployed role of a function and returns a function that
// restores it.
func (c *Cloud) RevokeAction(
	ctx context.Context, folder, action string,
) (restore func(context.Context) error, err error) {
	text, err := c.readPolicy(ctx, folder)
	if err != nil {
		return nil, err
	}
	less, err := withoutAction(text, action)
	if err != nil {
		return nil, fmt.Errorf("role of %s: %w", folder, err)
	}
	put := func(ctx context.Context, document string) error {
		in := map[string]string{"RoleName": c.Resources[logicalName(folder)+"Role"], "PolicyName": folder,
			"PolicyDocument": document}
		if err := (caller{endpoint: c.Endpoint}).callQuery(ctx, iam, "PutRolePolicy", in, nil); err != nil {
			return err
		}
		return c.roles.setPolicy(folder, document)
	}
	if err := put(ctx, less); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return put(ctx, text) }, nil
}

// readPolicy returns the deployed policy of a function's role as it is now, and keeps it for
// [Cloud.Authorize].
func (c *Cloud) readPolicy(ctx context.Context, folder string) (document string, err error) {
	var out struct {
		Document string `xml:"GetRolePolicyResult>PolicyDocument"`
	}
	in := map[string]string{"RoleName": c.Resources[logicalName(folder)+"Role"], "PolicyName": folder}
	if err := (caller{endpoint: c.Endpoint}).callQuery(ctx, iam, "GetRolePolicy", in, &out); err != nil {
		return "", err
	}
	if plain, err := url.QueryUnescape(out.Document); err == nil {
		out.Document = plain
	}
	return out.Document, c.roles.setPolicy(folder, out.Document)
}

func withoutAction(document, action string) (string, error) {
	var p policy
	if err := json.Unmarshal([]byte(document), &p); err != nil {
		return "", fmt.Errorf("reading its policy: %w", err)
	}
	found := false
	for i, s := range p.Statement {
		list := textsOf(s.Action)
		left := slices.DeleteFunc(slices.Clone(list), func(a string) bool { return a == action })
		found = found || len(left) < len(list)
		if len(left) == 0 {
			left = []string{"none:Nothing"}
		}
		p.Statement[i].Action, _ = json.Marshal(left)
	}
	if !found {
		return "", fmt.Errorf("its policy does not allow %s", action)
	}
	less, err := json.Marshal(p)
	return string(less), err
}

// RepeatCall sends a call again: as the function that made it, or as the root user if none did.
func (c *Cloud) RepeatCall(ctx context.Context, call Call) error {
	as := caller{endpoint: c.Endpoint}
	if function := c.Caller(call.AccessKey); function != "" {
		as.as = c.sessionOf(function)
	}
	_, err := as.sendRequest(ctx, request{
		service: call.Service, method: http.MethodPost, path: "/", body: call.Request, contentType: call.ContentType,
		target: call.Target,
	})
	return err
}

// sessionOf returns the keys of a function's role. The emulator derives them from the ARNs of
// function and role.
func (c *Cloud) sessionOf(folder string) aws.Credentials {
	id := logicalName(folder)
	function := fmt.Sprintf("arn:aws:lambda:%s:%s:function:%s", ministack.Region, ministack.Account,
		c.Resources[id+"Function"])
	role := fmt.Sprintf("arn:aws:iam::%s:role/%s", ministack.Account, c.Resources[id+"Role"])
	digest := hash(function + ":" + role)
	return aws.Credentials{
		AccessKeyID: "ASIA" + strings.ToUpper(digest[:16]), SecretAccessKey: hash("secret:" + digest),
		SessionToken: hash("token:" + digest),
	}
}
