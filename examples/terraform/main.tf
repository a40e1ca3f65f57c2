# A cluster whose machines come and go with its tasks, and a service behind a target group.

terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}

variable "installation" {
  description = "Name of Berth's stack; berth up is called berth."
  default     = "berth"
}
variable "image" {
  default = "nginx:1"
}
variable "subnets" {
  description = "Subnets of the machines."
  default     = ["subnet-1", "subnet-2", "subnet-3"]
}
variable "vpc" {
  default = "vpc-1"
}
variable "ami" {
  description = "An image with the ECS agent; docs/joining.md says how to find the newest."
  default     = "ami-1"
}

provider "aws" {}

resource "aws_ecs_cluster" "shop" {
  name = "shop"
}

resource "aws_iam_role" "node" {
  name = "shop-node"
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Principal = { Service = "ec2.amazonaws.com" }, Action = "sts:AssumeRole" }]
  })
}

resource "aws_iam_role_policy_attachment" "node" {
  role       = aws_iam_role.node.name
  policy_arn = "arn:aws:iam::aws:policy/service-role/AmazonEC2ContainerServiceforEC2Role"
}

resource "aws_iam_instance_profile" "node" {
  name = "shop-node"
  role = aws_iam_role.node.name
}

resource "aws_launch_template" "workers" {
  name          = "shop-workers"
  image_id      = var.ami
  instance_type = "m5.large"
  user_data     = base64encode("#!/bin/bash\necho ECS_CLUSTER=${aws_ecs_cluster.shop.name} >> /etc/ecs/ecs.config\n")
  iam_instance_profile {
    arn = aws_iam_instance_profile.node.arn
  }
}

resource "aws_autoscaling_group" "workers" {
  name                  = "shop-workers"
  min_size              = 0
  max_size              = 6
  vpc_zone_identifier   = var.subnets
  protect_from_scale_in = true
  launch_template {
    id      = aws_launch_template.workers.id
    version = aws_launch_template.workers.latest_version
  }
  # Berth changes only groups with this tag.
  tag {
    key                 = "berth:installation"
    value               = var.installation
    propagate_at_launch = false
  }
  # The capacity provider adds this one, as on AWS.
  tag {
    key                 = "AmazonECSManaged"
    value               = true
    propagate_at_launch = true
  }
  lifecycle {
    ignore_changes = [desired_capacity]
  }
}

resource "aws_ecs_capacity_provider" "workers" {
  name = "shop-workers"
  auto_scaling_group_provider {
    auto_scaling_group_arn         = aws_autoscaling_group.workers.arn
    managed_termination_protection = "ENABLED"
    managed_scaling {
      status          = "ENABLED"
      target_capacity = 100
    }
  }
}

resource "aws_ecs_cluster_capacity_providers" "shop" {
  cluster_name       = aws_ecs_cluster.shop.name
  capacity_providers = [aws_ecs_capacity_provider.workers.name]
  default_capacity_provider_strategy {
    capacity_provider = aws_ecs_capacity_provider.workers.name
    weight            = 1
  }
}

resource "aws_lb_target_group" "web" {
  name     = "shop-web"
  port     = 80
  protocol = "HTTP"
  vpc_id   = var.vpc
  health_check {
    path = "/"
  }
}

resource "aws_ecs_task_definition" "web" {
  family = "shop-web"
  container_definitions = jsonencode([{
    name         = "web"
    image        = var.image
    cpu          = 256
    memory       = 256
    portMappings = [{ containerPort = 80, hostPort = 0 }]
  }])
}

resource "aws_ecs_service" "web" {
  name                              = "web"
  cluster                           = aws_ecs_cluster.shop.id
  task_definition                   = aws_ecs_task_definition.web.arn
  desired_count                     = 2
  health_check_grace_period_seconds = 60
  wait_for_steady_state             = true
  capacity_provider_strategy {
    capacity_provider = aws_ecs_capacity_provider.workers.name
    weight            = 1
  }
  load_balancer {
    target_group_arn = aws_lb_target_group.web.arn
    container_name   = "web"
    container_port   = 80
  }
  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }
  depends_on = [aws_ecs_cluster_capacity_providers.shop]
}
