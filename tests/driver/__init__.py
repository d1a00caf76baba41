"""How tests run the product on virtual Sparks, ask it, and look at what becomes of them."""
