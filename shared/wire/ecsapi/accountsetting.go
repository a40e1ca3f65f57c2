package ecsapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"berth/shared/choice"
	"berth/shared/cluster"
	"berth/shared/wire/access"
	"berth/shared/wire/awsjson"
	"berth/shared/wire/input"
	"berth/shared/wire/transport"
)

// accountOperations answers the operations on account settings. Berth keeps its own: those of the
// account at ECS belong to everybody there, and ECS would ask for those of Berth's role, not of the
// caller.
type accountOperations struct {
	input.References
	settings AccountSettings
}

func (o *accountOperations) operations() map[string]awsjson.Operation {
	return map[string]awsjson.Operation{
		"ListAccountSettings":      awsjson.TypedOperation(o.listAccountSettings),
		"PutAccountSetting":        awsjson.TypedOperation(o.putAccountSetting),
		"PutAccountSettingDefault": awsjson.TypedOperation(o.putAccountSettingDefault),
		"DeleteAccountSetting":     awsjson.TypedOperation(o.deleteAccountSetting),
	}
}

// settingEnabled is the value of a setting that is on.
const settingEnabled = "enabled"

// settingValues are the settings that have an effect in Berth, with their values, the one that
// holds until one is set. The ARNs of Berth have the long format only. containerInsights
// holds for clusters that are created without it.
var settingValues = map[types.SettingName][]string{
	types.SettingNameServiceLongArnFormat:           {settingEnabled},
	types.SettingNameTaskLongArnFormat:              {settingEnabled},
	types.SettingNameContainerInstanceLongArnFormat: {settingEnabled},
	types.SettingNameContainerInsights:              {"disabled", settingEnabled, "enhanced"},
}

// checkSetting refuses settings without an effect in Berth by name, and, in ECS's words, names that
// ECS does not have and values that a setting does not have.
func checkSetting(name types.SettingName, v *string) error {
	if name == "" {
		return input.Invalid("name must not be empty.")
	}
	if !slices.Contains(name.Values(), name) {
		return input.UnknownValue("%.60s should be one of [serviceLongArnFormat,taskLongArnFormat,"+
			"containerInstanceLongArnFormat,containerLongArnFormat,awsvpcTrunking,containerInsights,dualStackIPv6]",
			name)
	}
	values, served := settingValues[name]
	switch {
	case !served:
		return input.Unsupported("name " + string(name))
	case v == nil || slices.Contains(values, *v):
		return nil
	case *v == "disabled": // the words are ECS's
		return input.Invalid("You can no longer disable Long Arn settings")
	}
	return input.Invalid("Invalid setting 'value'%s", choice.DidYouMean(*v, values))
}

// maxPrincipal is how long the ARN of a principal can be.
const maxPrincipal = 2048

// principalOf returns whose setting is meant: that of the ARN, or else the caller's own. All
// sessions of a role have the role's. A principal without a setting of its own has the root user's,
// and so does a caller without a name.
func (o *accountOperations) principalOf(ctx context.Context, ref *string) (string, error) {
	arn := input.Value(ref)
	if arn == "" {
		return callerOf(ctx, o.Account), nil
	}
	before, _, _ := strings.Cut(o.Account.RootARN(), "root")
	rest, own := strings.CutPrefix(arn, before)
	kind, name, _ := strings.Cut(rest, "/")
	if !own || len(arn) > maxPrincipal || rest != "root" && (kind != "user" && kind != "role" || name == "") {
		return "", input.Invalid("principalArn is %.300q, expected the ARN of a user, a role or root of this account.",
			arn)
	}
	return access.WithoutSession(arn), nil
}

// callerOf returns the principal whose settings hold for the caller.
func callerOf(ctx context.Context, account cluster.Account) string {
	if p := transport.Principal(ctx); p != "" {
		return access.WithoutSession(p)
	}
	return account.RootARN()
}

// putAccountSetting sets a setting of one principal.
func (o *accountOperations) putAccountSetting(
	ctx context.Context, in *ecs.PutAccountSettingInput,
) (*ecs.PutAccountSettingOutput, error) {
	principal, err := o.principalOf(ctx, in.PrincipalArn)
	if err != nil {
		return nil, err
	}
	out, err := o.putSetting(ctx, principal, in.Name, in.Value)
	return &ecs.PutAccountSettingOutput{Setting: out}, err
}

// putAccountSettingDefault sets a setting of all who have none of their own.
func (o *accountOperations) putAccountSettingDefault(
	ctx context.Context, in *ecs.PutAccountSettingDefaultInput,
) (*ecs.PutAccountSettingDefaultOutput, error) {
	out, err := o.putSetting(ctx, o.Account.RootARN(), in.Name, in.Value)
	return &ecs.PutAccountSettingDefaultOutput{Setting: out}, err
}

func (o *accountOperations) putSetting(
	ctx context.Context, principal string, name types.SettingName, v *string,
) (*types.Setting, error) {
	if err := input.CheckRequired("value", v); err != nil {
		return nil, err
	}
	if err := checkSetting(name, v); err != nil {
		return nil, err
	}
	if err := o.settings.SetAccountSetting(ctx, principal, string(name), *v); err != nil {
		return nil, err
	}
	return settingShape(name, *v, principal), nil
}

// deleteAccountSetting removes a principal's setting and answers with the value that holds now. The
// default of the account holds again.
func (o *accountOperations) deleteAccountSetting(
	ctx context.Context, in *ecs.DeleteAccountSettingInput,
) (*ecs.DeleteAccountSettingOutput, error) {
	if err := checkSetting(in.Name, nil); err != nil {
		return nil, err
	}
	principal, err := o.principalOf(ctx, in.PrincipalArn)
	if err != nil {
		return nil, err
	}
	if err := o.settings.SetAccountSetting(ctx, principal, string(in.Name), ""); err != nil {
		return nil, err
	}
	all, err := o.settings.AccountSettings(ctx)
	if err != nil {
		return nil, err
	}
	v, _ := effectiveSetting(all, o.Account, principal, in.Name)
	return &ecs.DeleteAccountSettingOutput{Setting: settingShape(in.Name, v, principal)}, nil
}

// listAccountSettings lists what was set for a principal, or with effectiveSettings what holds for
// it, sorted by name.
func (o *accountOperations) listAccountSettings(
	ctx context.Context, in *ecs.ListAccountSettingsInput,
) (*ecs.ListAccountSettingsOutput, error) {
	if in.Name != "" {
		if err := checkSetting(in.Name, nil); err != nil {
			return nil, err
		}
	}
	if in.Value != nil && in.Name == "" {
		return nil, input.Invalid("value needs name.")
	}
	principal, err := o.principalOf(ctx, in.PrincipalArn)
	if err != nil {
		return nil, err
	}
	// The SDK has 0 for no page size.
	var asked *int32
	if in.MaxResults != 0 {
		asked = &in.MaxResults
	}
	size, err := input.PageSize(asked, maxSettings)
	if err != nil {
		return nil, err
	}
	list := fmt.Sprint("account settings of ", principal, in.Name, input.Value(in.Value), in.EffectiveSettings)
	after, err := input.PageStart(list, input.Value(in.NextToken))
	if err != nil {
		return nil, err
	}
	all, err := o.settings.AccountSettings(ctx)
	if err != nil {
		return nil, err
	}
	out := &ecs.ListAccountSettingsOutput{Settings: []types.Setting{}}
	for _, name := range slices.Sorted(maps.Keys(settingValues)) {
		v, of := all[principal][string(name)], principal
		if in.EffectiveSettings {
			v, of = effectiveSetting(all, o.Account, principal, name)
		}
		wanted := (in.Name == "" || name == in.Name) && (in.Value == nil || v == *in.Value)
		if v == "" || !wanted || string(name) <= after {
			continue
		}
		if len(out.Settings) == size {
			out.NextToken = new(input.PageToken(list, string(out.Settings[size-1].Name)))
			break
		}
		out.Settings = append(out.Settings, *settingShape(name, v, of))
	}
	return out, nil
}

// maxSettings is how many settings a page has unless the caller says otherwise.
const maxSettings = 10

// effectiveSetting returns the value that holds for a principal, and whose it is: its own, the
// account's, or else ECS's default.
func effectiveSetting(
	all map[string]map[string]string, a cluster.Account, principal string, name types.SettingName,
) (v, of string) {
	for _, of := range []string{principal, a.RootARN()} {
		if v := all[of][string(name)]; v != "" {
			return v, of
		}
	}
	return settingValues[name][0], a.RootARN()
}

func settingShape(name types.SettingName, v, principal string) *types.Setting {
	return &types.Setting{Name: name, Value: &v, PrincipalArn: &principal, Type: types.SettingTypeUser}
}

// withInsights returns the body of a CreateCluster with the setting containerInsights of the
// caller, or of the account, if somebody has set it and the request does not.
func withInsights(
	ctx context.Context, account cluster.Account, settings AccountSettings, in *ecs.CreateClusterInput, body []byte,
) ([]byte, error) {
	if len(in.Settings) > 0 {
		return body, nil
	}
	all, err := settings.AccountSettings(ctx)
	if err != nil {
		return nil, err
	}
	name := string(types.SettingNameContainerInsights)
	v := cmp.Or(all[callerOf(ctx, account)][name], all[account.RootARN()][name])
	if v == "" {
		return body, nil
	}
	members := map[string]json.RawMessage{}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &members); err != nil {
			return nil, err
		}
	}
	// strings cannot fail
	members["settings"], _ = json.Marshal([]map[string]string{{"name": name, "value": v}})
	return json.Marshal(members)
}
