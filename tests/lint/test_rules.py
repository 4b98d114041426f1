"""Every rule finds its mistake, wherever the pieces are assigned, and stays silent on code that only looks like it."""

import textwrap

import pytest

from kullback.lint.rules import BY_CODE, RULES
from kullback.lint.run import lint_source

HEADER = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal, kl_divergence
"""

WRONG = {
    "KL001": [
        "nn.KLDivLoss('batchmean')",
        "crit = nn.KLDivLoss(size_average='sum')",
        "F.kl_div(a, b, 'batchmean')",
        "from torch.nn import KLDivLoss as KD\nKD('none')",
    ],
    "KL002": [
        "F.kl_div(F.softmax(x, 1), y, reduction='sum')",
        "F.kl_div(target=y, input=x.softmax(-1), reduction='sum')",
        "p = torch.sigmoid(x).clamp(1e-6, 1)\nF.kl_div(p, y, reduction='sum')",
        "a, b = torch.softmax(x, 0), y\nnn.KLDivLoss(reduction='sum')(a, b)",
        """
        class A(nn.Module):
            def __init__(self):
                self.act, self.crit = nn.Softmax(dim=1), nn.KLDivLoss(reduction='sum').cuda()
            def forward(self, x, y):
                return self.crit(self.act(x).float(), y.detach())
        """,
        "p = torch.sigmoid(x)\nF.kl_div(torch.stack([1 - p, p], -1), y, reduction='sum')",
        "def f(x, y, crit=nn.KLDivLoss(reduction='sum')):\n    return crit(F.softmax(x, -1), y)",
        "class K(nn.KLDivLoss):\n    pass\ncrit = K(reduction='sum')\ncrit(F.softmax(x, -1), y)",
        "if c:\n    p = x.softmax(1)\nelse:\n    p = y.softmax(1)\nF.kl_div(p, z, reduction='sum')",
        "log_p = F.softmax(x, 1)\nF.kl_div(log_p, y, reduction='sum')",
        "nn.KLDivLoss(reduction='sum').to(device)(F.softmax(x, 1), y)",
    ],
    "KL003": [
        "F.kl_div(a, F.log_softmax(x, 1), reduction='sum')",
        "t = x.softmax(-1).log().detach()\nnn.KLDivLoss(reduction='sum')(a, t)",
        "prob = torch.log_softmax(x, 1)\nF.kl_div(a, prob, reduction='sum')",
    ],
    "KL004": [
        "F.kl_div(a, x.softmax(-1), reduction='sum', log_target=True)",
        "nn.KLDivLoss(reduction='sum', log_target=True)(a, F.softmax(x, 1))",
    ],
    "KL005": ["p = F.softmax(x, 1)\nm = 0.5 * (p + p)\nF.kl_div(m.log(), p, reduction='sum')"],
    "KL006": [
        """
        lp, lq = F.log_softmax(x, 1), F.log_softmax(y, 1)
        m = (lp + lq) / 2
        F.kl_div(m, lp.exp(), reduction='sum')
        """,
        "F.kl_div(0.5 * x.log_softmax(1) + 0.5 * y.log_softmax(1), p, reduction='sum')",
    ],
    "KL007": [
        """
        def js(x, y):
            p, q = F.softmax(x, 1), F.softmax(y, 1)
            m = 0.5 * (p + q)
            return F.kl_div(p.log(), m, reduction='sum') + F.kl_div(q.log(), m, reduction='sum')
        """,
    ],
    "KL008": [
        """
        def loss(x, y, mu, logvar):
            return F.mse_loss(y, x, reduction='sum') + 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        """,
        """
        def loss(x, y, mu, logvar):
            bce = F.binary_cross_entropy(y, x, reduction='sum')
            kld = 0.5 * torch.sum(1 + logvar - mu ** 2 - torch.exp(logvar))
            return bce + kld
        """,
        """
        def loss(x, y, mu, logvar):
            total = F.mse_loss(y, x, reduction='sum')
            total += 0.5 * torch.sum(1 + logvar - mu ** 2 - torch.exp(logvar))
            return total
        """,
        """
        def loss(x, y, mu, logvar):
            kld = -0.5 * torch.sum(1 + logvar - mu ** 2 - torch.exp(logvar))
            return F.mse_loss(y, x, reduction='sum') - kld
        """,
    ],
    "KL009": [
        "kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar)",
        "kld = -0.5 * torch.sum(1 + self.lv - mu ** 2 - self.lv ** 2)",
    ],
    "KL010": [
        "F.kl_div(a, b)",
        "nn.KLDivLoss()(a, b)",
        "loss = F.kl_div(a, b, reduction='mean') * T * T",
        "F.kl_div(a, b, size_average=True)",
        "loss = 0.5 * F.kl_div(a, b)\nloss.backward()",
    ],
    "KL011": [
        "F.kl_div(a, b, reduction='none').mean()",
        "l = F.kl_div(a, b, reduction='none')\nl = l.mean(-1)",
        "torch.mean(F.kl_div(a, b, reduce=False))",
        "F.kl_div(F.log_softmax(x, dim=1), b, reduction='none').mean(dim=1)",
    ],
    "KL012": ["F.kl_div(F.log_softmax(x, dim=0), p, reduction='batchmean')"],
    "KL013": ["t = net(x)\nt.detach()\nF.kl_div(a, t, reduction='sum')"],
    "KL014": [
        """
        def loss(x, y, mu, logvar):
            rec = F.mse_loss(y, x, reduction='sum')
            kld = -0.5 * torch.mean(1 + logvar - mu ** 2 - logvar.exp())
            return rec + beta * kld
        """,
        """
        def loss(x, y, mu, logvar):
            kld = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum()
            return nn.MSELoss()(y, x) + kld
        """,
    ],
    "KL015": [
        "Normal(mu, std ** 2)",
        "Normal(mu, scale=x.var(0))",
        """
        def f(mu, s):
            z = mu + torch.exp(0.5 * s) * eps
            return Normal(mu, torch.exp(s))
        """,
    ],
    "KL016": ["kl_divergence(Normal(mu, s), Normal(z, o)).mean()"],
    "KL017": ["lr = pi.log_prob(a) - ref.log_prob(a)\nloss = pg + beta * lr.mean()"],
    "KL018": [
        "d = ref - logp\nkl = torch.exp(d) - d - 1",
        "kl = (ref - logp).exp() - (ref - logp) - 1",
        "d = a - b\nkl = d.exp() - 1 - d",
    ],
    "KL019": ["m = (y != 0).float()\nl = torch.exp(x) * m"],
    "KL020": [
        "torch.nan_to_num(F.kl_div(a, b, reduction='sum'))",
        "l = F.kl_div(a, b, reduction='sum')\nl.nan_to_num(0.)",
    ],
    "KL021": ["F.kl_div(a, b, size_average=False)", "nn.KLDivLoss(reduce=False)"],
    "KL022": ["torch.log(F.softmax(x, dim=1))", "y = x.softmax(-1).log()", "torch.log(torch.softmax(x, 1))"],
    "KL023": ["F.softmax(x)", "nn.LogSoftmax()"],
    "KL024": ["torch.log(F.softmax(x, 1) + 1e-8)", "eps = 1e-10\np = torch.sigmoid(x)\n(p + eps).log()"],
    "KL025": ["F.kl_div(F.log_softmax(s / T, 1), F.softmax(t / T, 1), reduction='batchmean')"],
}

SILENT = [
    # a mean that is compensated
    "F.kl_div(a, b) * num_classes",
    "loss = F.kl_div(a, b) * self.C",
    "loss = F.kl_div(a, b)\nloss = loss * a.size(1)",
    "loss = F.kl_div(a, b)\nloss *= a.shape[-1]",
    "loss = nn.KLDivLoss()(a, b) * 1000",
    "F.kl_div(a, b, reduction='sum') / a.numel()",
    # right calls
    "F.kl_div(F.log_softmax(x / T, 1), F.softmax(y / T, 1), reduction='batchmean') * (T * T)",
    "loss = F.kl_div(F.log_softmax(x / 2, 1), F.softmax(y / 2, 1), reduction='batchmean')\nloss = loss * 2 ** 2",
    "nn.KLDivLoss(reduction='sum', log_target=True)(x.log_softmax(1), y.log_softmax(1))",
    "F.kl_div(a, b, reduction='none').sum(1).mean()",
    "l = F.kl_div(a, b, reduction='none')\nl = (l * mask).sum() / mask.sum()",
    "l = F.kl_div(a, b, reduction='none').sum(-1)\nl = l.mean()",
    "F.kl_div(a, b, reduction='none').mean(0)",
    "m = (F.softmax(x, 1) + F.softmax(y, 1)) / 2\nF.kl_div(m.log(), F.softmax(x, 1), reduction='sum')",
    # the same names, not torch's
    "import paddle.nn.functional as P\nP.kl_div(P.softmax(x), y)",
    "def kl_div(a, b):\n    return a\nkl_div(F.softmax(x, 1), y)",
    "KLDivLoss = make()\nKLDivLoss(F.softmax(x, 1), y)",
    "from mylib import functional as F\nF.kl_div(F.softmax(x, 1), y)",
    "from .losses import KLDivLoss\nKLDivLoss('batchmean')",
    # names that say one thing and hold another
    "prob_s = F.log_softmax(x, 1)\nF.kl_div(prob_s, b, reduction='sum')",
    "logits = F.log_softmax(x, 1)\nF.kl_div(logits, b, reduction='sum')",
    "def f(p, log_q):\n    return F.kl_div(p, log_q, reduction='sum')",
    # one branch knows, the other does not
    "if c:\n    p = F.softmax(x, 1)\nelse:\n    p = f(x)\nF.kl_div(p, y, reduction='sum')",
    "p = F.softmax(x, 1)\nif c:\n    p = p.log()\nF.kl_div(p, y, reduction='sum')",
    "p = F.softmax(x, 1)\np = torch.log(p)\nF.kl_div(p, y, reduction='sum')",
    "p = F.softmax(x, 1)\np[0] = g(x)\nF.kl_div(p, y, reduction='sum')",
    "F.kl_div(F.softmax(x, 1).mean(0).log(), y, reduction='sum')",
    "class A(nn.Module):\n    def forward(self, x, y):\n        return F.kl_div(self.softmax(x), y, reduction='sum')",
    # signs of a VAE that are right, or right for an evidence bound
    """
    def loss(x, y, mu, logvar):
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return F.mse_loss(y, x, reduction='sum') + kld
    """,
    """
    def loss(x, y, mu, logvar):
        kld = 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return F.mse_loss(y, x, reduction='sum') - kld
    """,
    """
    def elbo(x, p, mu, logvar):
        return p.log_prob(x).sum() + 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    """,
    """
    def loss(x, y, mu, logvar):
        kld = torch.mean(-0.5 * torch.sum(1 + logvar - mu ** 2 - logvar.exp(), dim=1), dim=0)
        return F.mse_loss(y, x) + 0.00025 * kld
    """,
    "kld = 0.5 * torch.sum(mu ** 2 + logvar.exp() - 1 - logvar)",
    "kld = -0.5 * torch.sum(1 + torch.log(var) - mu ** 2 - var)",
    "kld = -0.5 * torch.sum(1 + 2 * log_std - mu ** 2 - torch.exp(2 * log_std))",
    # scales
    "def f(mu, logvar):\n    return Normal(mu, torch.exp(logvar))",
    "Normal(mu, torch.exp(0.5 * logvar))",
    "Normal(mu, var.sqrt())",
    # log-ratios that are bounded
    "d = (ref - logp).clamp(-20, 20)\nkl = torch.exp(d) - d - 1",
    "d = torch.clamp(ref - logp, max=10)\nkl = d.exp() - d - 1",
    "with torch.no_grad():\n    d = ref - logp\n    kl = torch.exp(d) - d - 1",
    # symmetric and reverse KL are choices
    "l, m = s.log_softmax(1), t.log_softmax(1)\nF.kl_div(l, m.exp(), reduction='sum') + F.kl_div(m, l.exp())*V",
    # a test of agreement with random numbers
    "x = torch.randn(3, 4).log_softmax(1)\ny = torch.rand(3, 4).softmax(1)\nassert F.kl_div(x, y) == mine(x, y)",
    "t = net(x)\nt = t.detach()\nF.kl_div(a, t, reduction='sum')",
    "torch.nan_to_num(x)",
    "torch.log(F.softmax(x, 1).mean(0))",
    "torch.log(x + 1e-8)",
    "crit = nn.KLDivLoss(**options)\ncrit(a, b)",
    "0.5 * (x + x)",
]


def codes(code, select=None):
    rules = RULES if select else None
    return [finding.code for finding in lint_source(HEADER + textwrap.dedent(code), rules=rules)]


@pytest.mark.parametrize(("code", "source"), [(c, s) for c, sources in WRONG.items() for s in sources])
def test_a_mistake_is_found(code, source):
    assert code in codes(source, select=True)


@pytest.mark.parametrize("code", [rule.code for rule in RULES])
def test_every_rule_has_a_mistake_and_a_page(code):
    rule = BY_CODE[code]
    assert WRONG[code]
    assert rule.page.startswith(f"{code}: ")
    assert ">>> " in rule.page


@pytest.mark.parametrize("source", SILENT)
def test_right_code_is_not_reported(source):
    assert codes(source) == []
