"""The webhooks and policies that apply the rules, defaults and versions of a box's kind."""
