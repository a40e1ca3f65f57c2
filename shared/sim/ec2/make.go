package ec2

import (
	"context"
	"encoding/base64"
	"maps"
	"strconv"
	"time"

	"berth/shared/cluster"
)

// EnsureTemplate makes a launch template and returns its first version. One of that name may exist.
func (e *Templates) EnsureTemplate(
	ctx context.Context, n cluster.NewTemplate,
) (*cluster.LaunchTemplate, error) {
	data := Data{
		"UserData": base64.StdEncoding.EncodeToString([]byte(n.UserData)),
		"BlockDeviceMapping": []any{map[string]any{"DeviceName": n.Device, "Ebs": map[string]any{
			"VolumeSize": strconv.Itoa(n.DiskSize), "VolumeType": "gp3", "DeleteOnTermination": "true",
		}}},
	}
	err := e.kernel.Call("CreateLaunchTemplate", n.Name, func(now time.Time) error {
		if err := e.checkNewName(n.Name); err != nil {
			return err
		}
		if n.From.ID != "" {
			from, version, err := e.resolveVersion(n.From)
			if err != nil {
				return err
			}
			if data = from.Versions[version-1].Data; n.UserData != "" {
				data = data.withMembers(Data{"UserData": base64.StdEncoding.EncodeToString([]byte(n.UserData))})
			}
		}
		data = data.withMembers(Data{"ImageId": n.Image, "IamInstanceProfile": map[string]any{"Name": n.Profile}})
		e.addTemplate(n.Name, templateVersion{Data: data}, now).Tags = maps.Clone(n.Tags)
		return nil
	})
	if err != nil && cluster.ErrorCode(err) != "InvalidLaunchTemplateName.AlreadyExistsException" {
		return nil, err
	}
	return e.LaunchTemplate(ctx, cluster.TemplateRef{Name: n.Name, Version: "1"})
}

// DeleteTemplate deletes a launch template with all of its versions, if there is one.
func (e *Templates) DeleteTemplate(_ context.Context, name string) error {
	return e.kernel.Call("DeleteLaunchTemplate", name, func(time.Time) error {
		if t, _ := e.findTemplate(cluster.TemplateRef{Name: name}); t != nil {
			e.remove(t)
		}
		return nil
	})
}

// remove deletes a template. It belongs in a step.
func (e *Templates) remove(t *launchTemplate) {
	delete(e.Rows, t.ID)
	e.kernel.DeleteRow(t)
}
